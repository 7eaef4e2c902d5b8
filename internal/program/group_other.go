//go:build !unix

package program

import "os/exec"

// killWithGroup does nothing: the program alone is killed.
func killWithGroup(*exec.Cmd) {}
