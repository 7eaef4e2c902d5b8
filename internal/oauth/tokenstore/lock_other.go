//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package tokenstore

// tryLockFile does nothing: this system has no lock that is released when its
// process ends. Several processes may renew one token at the same time.
func tryLockFile(string) (unlock func(), busy bool, err error) { return func() {}, false, nil }
