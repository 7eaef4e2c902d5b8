package daemon

import "syscall"

// detachedProcess is DETACHED_PROCESS of the Windows API, which package syscall does not have.
const detachedProcess = 0x8

// detached are the attributes of a process without the host's console.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP}
}
