"""What the opcodes of PTX and SASS do, as TOML files."""
