//go:build linux

package fleettest

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProxy: what is sent into a cut direction arrives when it is healed, and not before; the other
// direction and other sources are not affected.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	sources, owners := make(chan string, 3), make(chan int, 3)
	p := StartProxy(t, l.Addr().String(), func(conn net.Conn) string {
		owners <- ownerOf(conn, []int{1, os.Getpid()})
		return <-sources
	})
	defer p.Close()
	dial := func(source string) (near net.Conn) {
		sources <- source
		near, err := net.Dial("tcp", p.Address)
		require.NoError(t, err)
		require.Equal(t, os.Getpid(), <-owners)
		return near
	}
	pass := func(from, to net.Conn) {
		_, err := from.Write([]byte("x"))
		require.NoError(t, err)
		arrives(t, to)
	}
	a := dial("a")
	farA, err := l.Accept()
	require.NoError(t, err)
	b := dial("b")
	farB, err := l.Accept()
	require.NoError(t, err)
	pass(a, farA)
	pass(farA, a)

	p.Cut("a", There)
	_, err = a.Write([]byte("x"))
	require.NoError(t, err)
	pass(farA, a)
	pass(b, farB)
	nothing(t, farA)
	p.Heal("a")
	arrives(t, farA)

	p.Cut(AnySource)
	for _, c := range []net.Conn{a, farA, b, farB} {
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
	}
	c := dial("c") // it seems to be open
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	for _, c := range []net.Conn{a, farA, b, farB, c} {
		nothing(t, c)
	}
	p.Heal(AnySource)
	farC, err := l.Accept()
	require.NoError(t, err)
	for _, c := range []net.Conn{a, farA, b, farB, farC} {
		arrives(t, c)
	}
	require.NoError(t, a.Close())
	_, err = farA.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	for _, c := range []net.Conn{farA, b, farB, c, farC} {
		require.NoError(t, c.Close())
	}
}

func arrives(t *testing.T, to net.Conn) {
	t.Helper()
	require.NoError(t, to.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadFull(to, make([]byte, 1))
	require.NoError(t, err)
}

// nothing arrives, as far as 50 ms can tell.
func nothing(t *testing.T, to net.Conn) {
	t.Helper()
	require.NoError(t, to.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := to.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
