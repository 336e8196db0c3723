"""The verb doctor: checks the installation and says what to do."""
