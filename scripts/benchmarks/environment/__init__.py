"""Where a run takes place: the machine, processes on chosen processors, nginx, a manager of its own."""
