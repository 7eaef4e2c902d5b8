package main

func plot(dir string) error { return nil }
