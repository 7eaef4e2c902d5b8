package hostilehttp

import (
	"fmt"
	"strconv"
	"strings"
)

// wireMisbehaviours happen on the connection, below HTTP.
var wireMisbehaviours = []Misbehaviour{
	whenCalled("wire/close", "Closes the connection instead of answering.", func(req *request) { req.raw(func(*rawConn) {}) }),
	whenCalled("wire/reset", "Resets the connection instead of answering.", func(req *request) { req.raw((*rawConn).reset) }),
	whenCalled("wire/reset-in-body", "Resets the connection in the middle of the answer.", func(req *request) {
		req.begin(200, "application/json", req.answer()[:20])
		req.raw((*rawConn).reset)
	}),
	whenCalled("wire/half-closed", "Closes its half of the connection and goes on reading.", func(req *request) { req.raw((*rawConn).closeWrite) }),
	whenCalled("wire/half-answer", "Closes its half of the connection after half of the answer.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n%s", req.answer())
			c.closeWrite()
		})
	}),
	whenCalled("wire/close-after", "Closes the connection after each answer, and promises to keep it.", func(req *request) {
		answer := req.answer()
		rawBytes(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer))(req)
	}),
	whenever("wire/close-all", "Says \"Connection: close\" with everything, and does it.", func(req *request) {
		req.w.Header().Set("Connection", "close")
		req.answerWell()
	}, "*"),
	whenCalled("wire/no-http", "Answers as an SSH server does.", rawBytes("SSH-2.0-OpenSSH_9.6\r\n")),
	whenCalled("wire/http-0.9", "Answers without status and header.", func(req *request) { rawBytes(req.answer())(req) }),
	whenCalled("wire/http-1.0", "Answers in HTTP/1.0.", func(req *request) {
		rawBytes("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + req.answer())(req)
	}),
	whenCalled("wire/http-2", "Answers with the preface of an HTTP/2 server.", rawBytes("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64")),
	whenCalled("wire/http-9", "Answers in HTTP/9.9.", rawBytes("HTTP/9.9 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")),
	whenCalled("wire/tls", "Speaks TLS on a plain connection.", rawBytes("\x15\x03\x01\x00\x02\x02\x46")),
	whenCalled("wire/no-reason", "Leaves the reason out of the status line.", func(req *request) {
		answer := req.answer()
		rawBytes(fmt.Sprintf("HTTP/1.1 200\r\nConnection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer))(req)
	}),
	whenCalled("wire/no-status", "Leaves the status out of the status line.", rawBytes("HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n")),
	whenCalled("wire/status-0", "Answers with a status of 000.", rawReply("000 Nothing", []string{"Content-Length: 0"}, "")),
	whenCalled("wire/status-999", "Answers with a status of 999.", rawReply("999 Everything", []string{"Content-Length: 0"}, "")),
	whenCalled("wire/trickle", "Sends half of a status line and then nothing more.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 20")
			c.wait()
		})
	}),
	whenCalled("wire/garbage-for-ever", "Sends bytes that are not HTTP, without a line break and without end.", func(req *request) {
		req.raw(func(c *rawConn) {
			for n := 0; n < maxFloodBytes && c.write("%s", block); n += len(block) {
				continue
			}
		})
	}),
	whenCalled("wire/length-too-long", "Announces more than it sends, and closes.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 5000"}, req.answer())(req)
	}),
	whenCalled("wire/length-too-long-open", "Announces more than it sends, and keeps the connection.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n%s", req.answer())
			c.wait()
		})
	}),
	whenCalled("wire/length-too-short", "Announces less than it sends.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 12"}, req.answer())(req)
	}),
	whenCalled("wire/length-too-short-whole", "Sends another, forged answer behind the announced end of the first.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"Content-Type: application/json", sizeOf(answer)},
			answer+"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")(req)
	}),
	whenCalled("wire/two-lengths", "Announces two different lengths.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 5", "Content-Length: 500"}, req.answer())(req)
	}),
	whenCalled("wire/length-negative", "Announces a negative length.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: -5"}, req.answer())(req)
	}),
	whenCalled("wire/length-and-chunks", "Announces a length, and sends chunks.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 3", "Transfer-Encoding: chunked"},
			chunk(answer)+"0\r\n\r\n")(req)
	}),
	whenCalled("wire/chunks-cut", "Ends a chunked body in the middle of a chunk.", func(req *request) {
		answer := chunk(req.answer())
		rawReply("200 OK", chunked, answer[:len(answer)/2])(req)
	}),
	whenCalled("wire/chunks-unended", "Sends the whole answer in chunks, and never the last, empty one.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s\r\n\r\n%s", strings.Join(chunked, "\r\n"), chunk(req.answer()))
			c.wait()
		})
	}),
	whenCalled("wire/chunks-bad", "Sends a chunk whose size is not a number.", func(req *request) {
		rawReply("200 OK", chunked, "zz\r\n"+req.answer()+"\r\n0\r\n\r\n")(req)
	}),
	whenCalled("wire/chunk-size-huge", "Sends a chunk that says to be larger than there are numbers.", func(req *request) {
		rawReply("200 OK", chunked, "ffffffffffffffffff\r\n"+req.answer())(req)
	}),
	whenCalled("wire/chunk-extensions", "Sends one byte in each chunk, and kilobytes about it.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s\r\n\r\n", strings.Join(chunked, "\r\n"))
			for c.write("1;about=%s\r\n \r\n", block[:2<<10]) {
				continue
			}
		})
	}),
	whenCalled("wire/trailer-flood", "Sends a trailer behind the last chunk that never ends.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s\r\n\r\n%s0\r\n", strings.Join(chunked, "\r\n"), chunk(req.answer()))
			for c.write("X-More: %s\r\n", block[:2<<10]) {
				continue
			}
		})
	}),
}

var chunked = []string{"Content-Type: application/json", "Transfer-Encoding: chunked"}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// sizeOf is the line of header that announces a body.
func sizeOf(body string) string { return "Content-Length: " + strconv.Itoa(len(body)) }

// headMisbehaviours are about status lines and headers.
var headMisbehaviours = []Misbehaviour{
	whenCalled("head/10-mb", "Sends a header of more than 10 MB.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\nX-Story: ")
			for n := 0; n < 11<<20; n += len(block) {
				if !c.write("%s", block) {
					return
				}
			}
			c.write("\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(req.answer()), req.answer())
		})
	}),
	whenCalled("head/flood", "Sends twenty thousand headers.", func(req *request) {
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s", strings.Repeat("X-One-More: of these\r\n", 20_000))
			c.write("Connection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(req.answer()), req.answer())
		})
	}),
	whenCalled("head/endless", "Sends headers without end.", func(req *request) {
		req.raw(func(c *rawConn) {
			lines := strings.Repeat("X-One-More: of these\r\n", 1_000)
			for ok := c.write("HTTP/1.1 200 OK\r\n"); ok; ok = c.write("%s", lines) {
				continue
			}
		})
	}),
	whenCalled("head/no-colon", "Sends a header without a colon, in which our own Authorization stands.", func(req *request) {
		rawReply("200 OK", []string{"you said " + req.http.Header.Get("Authorization"), "Content-Length: 0"}, "")(req)
	}),
	whenCalled("head/nul", "Sends a header with a NUL in it.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"X-Nul: a\x00b", "Content-Type: application/json", sizeOf(answer)}, answer)(req)
	}),
	whenCalled("head/folded", "Folds a header over three lines.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"X-Long: one", "  two", "\tthree", "Content-Type: application/json", sizeOf(answer)}, answer)(req)
	}),
	whenCalled("head/hints", "Sends a few 103 Early Hints before the answer.", func(req *request) {
		answer := req.answer()
		req.raw(func(c *rawConn) {
			c.write("%s", strings.Repeat(earlyHint, 3))
			c.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer)
		})
	}),
	whenCalled("head/hint-flood", "Sends 103 Early Hints without end.", func(req *request) {
		req.raw(func(c *rawConn) {
			for c.write("%s", strings.Repeat(earlyHint, 100)) {
				continue
			}
		})
	}),
	whenCalled("head/continue", "Says 100 Continue, which was not requested, before the answer.", func(req *request) {
		answer := req.answer()
		req.raw(func(c *rawConn) {
			c.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer)
		})
	}),
	whenCalled("head/switching", "Says 101 Switching Protocols and waits for the other one to begin.", switching),
	whenCalled("head/cookies", "Sets cookies, and refuses requests that have one.", func(req *request) {
		if req.http.Header.Get("Cookie") != "" {
			req.reply(418, "text/plain", "I did not mean it")
			return
		}
		req.w.Header().Add("Set-Cookie", "hostile=1; Path=/")
		req.w.Header().Add("Set-Cookie", "wide=1; Domain=127.0.0.1; Path=/")
		req.answerWell()
	}),
}

const earlyHint = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
