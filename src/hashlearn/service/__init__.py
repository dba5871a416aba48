"""Collections over HTTP, and the explorer page. Needs ``hashlearn[serve]``; docs/service.md is the guide."""
