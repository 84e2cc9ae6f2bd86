"""The operator process: options, platform, controllers, leader election, and a dry run of it."""
