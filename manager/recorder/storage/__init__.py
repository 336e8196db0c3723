"""The recorder's database: its tables and their upgrades, how it is opened, its size and age."""
