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

// takeOverConn takes over the connection, for bytes that net/http would not send. It
// closes the connection when do returns.
func (req *request) takeOverConn(do func(c *rawConn)) {
	conn, rw, err := http.NewResponseController(req.w).Hijack()
	if err != nil {
		http.Error(req.w, "this misbehaviour needs a connection of HTTP/1: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Time{})
	do(&rawConn{Conn: conn, in: rw.Reader})
}

// write sends bytes unchanged and reports whether the client is still connected.
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

// tcp returns the TCP connection; nil if the connection is not TCP.
func (c *rawConn) tcp() *net.TCPConn {
	conn := c.Conn
	if counted, ok := conn.(*countedConn); ok {
		conn = counted.Conn
	}
	tcp, _ := conn.(*net.TCPConn)
	return tcp
}

// rawReply writes a whole HTTP response, with the headers given as lines, and closes
// the connection.
func rawReply(status string, headers []string, body string) handler {
	return rawBytes("HTTP/1.1 " + status + "\r\nConnection: close\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body)
}

// rawBytes writes a text unchanged and closes the connection.
func rawBytes(text string) handler {
	return func(req *request) { req.takeOverConn(func(c *rawConn) { c.write("%s", text) }) }
}
