"""Office files: Word, Excel and PowerPoint."""
