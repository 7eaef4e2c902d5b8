// Package filelock locks files against other processes. The kernel releases a lock when its
// process ends, however it ends.
//
//	func TryLock(path string) (unlock func(), busy bool, err error)
//	func TryLockOpened(path string, open func(flag int) (*os.File, error)) (unlock func(), busy bool, err error)
//
// TryLock creates a file that does not exist, for its owner only, and does not wait. TryLockOpened locks the file that
// open opens, where the system locks open files: open must create it, too. busy means
// that the lock is taken, by another process or by this one. unlock releases it. A lock file
// must never be removed: otherwise two processes could hold locks on two files of the same
// name. On a system without such locks the error is errors.ErrUnsupported.
package filelock
