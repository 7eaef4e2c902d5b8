//go:build unix

package daemon

import "syscall"

// detached are the attributes of a process that no signal to the host's terminal or process group
// reaches.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
