package hostilehttp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// rawConn is the connection of a request, taken over from net/http.
type rawConn struct {
	net.Conn
	in *bufio.Reader
}

// raw takes the connection over, for bytes that net/http would not send. The
// connection is closed when do returns.
func (req *request) raw(do func(c *rawConn)) {
	conn, rw, err := http.NewResponseController(req.w).Hijack()
	if err != nil {
		http.Error(req.w, "this misbehaviour needs a connection of HTTP/1: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	do(&rawConn{Conn: conn, in: rw.Reader})
}

// write sends bytes as they are, and reports whether the client is still there.
func (c *rawConn) write(format string, args ...any) bool {
	_, err := fmt.Fprintf(c.Conn, format, args...)
	return err == nil
}

// wait returns when the client has closed the connection.
func (c *rawConn) wait() { _, _ = io.Copy(io.Discard, c.in) }

// reset ends the connection with a RST instead of a FIN.
func (c *rawConn) reset() {
	if tcp := c.tcp(); tcp != nil {
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
}

// closeWrite sends a FIN and continues to read.
func (c *rawConn) closeWrite() {
	if tcp := c.tcp(); tcp != nil {
		_ = tcp.CloseWrite()
	}
	c.wait()
}

// tcp returns the TCP connection; nil over anything else.
func (c *rawConn) tcp() *net.TCPConn {
	conn := c.Conn
	if counted, ok := conn.(*countedConn); ok {
		conn = counted.Conn
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

// rawReply writes a whole reply by hand, with the headers given as lines, and
// closes the connection.
func rawReply(status string, headers []string, body string) handler {
	return rawBytes("HTTP/1.1 " + status + "\r\nConnection: close\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body)
}

// rawBytes writes a text as it is and closes the connection.
func rawBytes(text string) handler {
	return func(req *request) { req.raw(func(c *rawConn) { c.write("%s", text) }) }
}
