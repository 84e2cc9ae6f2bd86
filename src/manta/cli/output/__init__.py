"""What commands print: tables, progress, help, and objects in words."""
