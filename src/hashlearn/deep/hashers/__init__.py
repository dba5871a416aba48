"""The deep methods, one file each with its loss. None of these files imports torch before something is fitted."""
