"""The Settings page's sections, and the HTML of what they show."""
