"""What a replay needs of a server, each thing tried and not believed: the checks behind `rotoscope doctor`."""
