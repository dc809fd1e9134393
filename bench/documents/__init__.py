"""Documents as users have them, with questions in the words of users, and a check of the answers."""
