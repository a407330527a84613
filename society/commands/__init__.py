"""The commands, one module for each: what is typed becomes calls, what comes back becomes lines and an exit code."""
