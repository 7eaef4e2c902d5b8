package guard

import (
	"net"
	"time"
)

// Conn guards a connection that the host made. net/http reads and writes it in its
// own goroutines.
type Conn struct{ conn net.Conn }

const connection = "connection"

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, PanicError(connection, v)
		}
	}()
	return c.conn.Read(p)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			n, err = 0, PanicError(connection, v)
		}
	}()
	return c.conn.Write(p)
}

// Close implements net.Conn.
func (c *Conn) Close() error { return Call(connection, c.conn.Close) }

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return safeAddr(c.conn.LocalAddr) }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return safeAddr(c.conn.RemoteAddr) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return Call(connection, func() error { return c.conn.SetDeadline(t) })
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return Call(connection, func() error { return c.conn.SetReadDeadline(t) })
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return Call(connection, func() error { return c.conn.SetWriteDeadline(t) })
}

// safeAddr returns the address that of returns, or an empty address for nil and after
// a panic.
func safeAddr(of func() net.Addr) net.Addr {
	a, err := Value(connection, func() (net.Addr, error) { return of(), nil })
	if err != nil || a == nil {
		return &net.UnixAddr{}
	}
	return a
}
