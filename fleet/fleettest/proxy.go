//go:build linux

package fleettest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Direction is one of the two of a connection.
type Direction int

const (
	// There is from those who connect to the target.
	There Direction = iota
	// Back is from the target to those who connect.
	Back
)

// AnySource is every source of a [Proxy].
const AnySource = ""

// Proxy passes TCP connections on to a target. A direction that is cut swallows: what was sent stays
// here until it is healed, as retransmissions do, and no end of the connection learns of it.
type Proxy struct {
	// Address is where it listens.
	Address string

	listener net.Listener
	target   string
	source   func(net.Conn) string
	done     chan struct{}
	work     sync.WaitGroup

	mu      sync.Mutex
	cut     map[cutKey]bool
	changed chan struct{} // closed, and replaced, with every change of cut
}

type cutKey struct {
	source    string
	direction Direction
}

// StartProxy runs a proxy until Close. source names who has connected, so that the links of
// one target can be cut each; nil: all are [AnySource].
func StartProxy(t testing.TB, target string, source func(net.Conn) string) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{
		Address: l.Addr().String(), listener: l, target: target, source: source,
		done: make(chan struct{}), cut: map[cutKey]bool{}, changed: make(chan struct{}),
	}
	p.work.Go(p.accept)
	return p
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	close(p.done)
	_ = p.listener.Close()
	p.work.Wait()
}

// Cut swallows what the source sends and gets; without directions, both.
func (p *Proxy) Cut(source string, directions ...Direction) { p.set(source, true, directions) }

// Heal takes [Proxy.Cut] back.
func (p *Proxy) Heal(source string, directions ...Direction) { p.set(source, false, directions) }

func (p *Proxy) set(source string, cut bool, directions []Direction) {
	if len(directions) == 0 {
		directions = []Direction{There, Back}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range directions {
		p.cut[cutKey{source, d}] = cut
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// pass waits until the direction is not cut; false: the proxy ends.
func (p *Proxy) pass(source string, d Direction) bool {
	for {
		p.mu.Lock()
		cut, changed := p.cut[cutKey{AnySource, d}] || p.cut[cutKey{source, d}], p.changed
		p.mu.Unlock()
		if !cut {
			return true
		}
		select {
		case <-changed:
		case <-p.done:
			return false
		}
	}
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(conn) })
	}
}

// serve carries one connection.
func (p *Proxy) serve(conn net.Conn) {
	ended := make(chan struct{}) // one direction has ended
	var once sync.Once
	end := func() { once.Do(func() { close(ended) }) }
	defer func() { _ = conn.Close() }()
	source := AnySource
	if p.source != nil {
		source = p.source(conn)
	}
	// A SYN is swallowed, too, though its sender sees an open connection.
	if !p.pass(source, There) || !p.pass(source, Back) {
		return
	}
	target, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		return // refused, and so is this one
	}
	defer func() { _ = target.Close() }()
	var pumps sync.WaitGroup
	pumps.Go(func() { defer end(); p.pump(target, conn, source, There) })
	pumps.Go(func() { defer end(); p.pump(conn, target, source, Back) })
	select {
	case <-ended:
	case <-p.done:
	}
	_ = conn.Close()
	_ = target.Close()
	pumps.Wait()
}

func (p *Proxy) pump(to, from net.Conn, source string, d Direction) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(source, d) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// ownerOf returns which of the processes has the other end of a connection on this machine; 0: none.
func ownerOf(conn net.Conn, pids []int) int {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	socket := "socket:[" + inodeOf(remote) + "]"
	for _, pid := range pids {
		folder := fmt.Sprintf("/proc/%d/fd", pid)
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			if name, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && name == socket {
				return pid
			}
		}
	}
	return 0
}

// inodeOf returns the inode of the socket that is bound to a local address; "": none.
func inodeOf(local *net.TCPAddr) string {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer func() { _ = table.Close() }()
	port := fmt.Sprintf(":%04X", local.Port)
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], port) && strings.HasPrefix(fields[1], "0100007F") {
			return fields[9]
		}
	}
	return ""
}
