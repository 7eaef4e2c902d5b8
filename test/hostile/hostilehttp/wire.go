package hostilehttp

import (
	"fmt"
	"strconv"
	"strings"
)

// wireMisbehaviours are about the connection, below HTTP.
var wireMisbehaviours = []Misbehaviour{
	onCall("wire/close", "Closes the connection instead of answering.", func(req *request) { req.takeOverConn(func(*rawConn) {}) }),
	onCall("wire/reset", "Resets the connection instead of answering.", func(req *request) { req.takeOverConn((*rawConn).reset) }),
	onCall("wire/reset-in-body", "Resets the connection in the middle of the answer.", func(req *request) {
		req.beginReply(200, "application/json", req.answer()[:20])
		req.takeOverConn((*rawConn).reset)
	}),
	onCall("wire/half-closed", "Closes its sending side of the connection and continues to read.", func(req *request) { req.takeOverConn((*rawConn).closeWrite) }),
	onCall("wire/half-answer", "Closes its sending side of the connection before the body is complete.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n%s", req.answer())
			c.closeWrite()
		})
	}),
	onCall("wire/close-after", "Closes the connection after each answer although the answer does not announce it.", func(req *request) {
		answer := req.answer()
		rawBytes(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer))(req)
	}),
	onKeys("wire/close-all", "Sends Connection: close with every response and closes the connection, as it may.", func(req *request) {
		req.w.Header().Set("Connection", "close")
		req.answerWell()
	}, "*"),
	onCall("wire/no-http", "Answers with the greeting of an SSH server.", rawBytes("SSH-2.0-OpenSSH_9.6\r\n")),
	onCall("wire/http-0.9", "Answers without a status line and headers.", func(req *request) { rawBytes(req.answer())(req) }),
	onCall("wire/http-1.0", "Answers in HTTP/1.0.", func(req *request) {
		rawBytes("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + req.answer())(req)
	}),
	onCall("wire/http-2", "Answers with an HTTP/2 SETTINGS frame.", rawBytes("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64")),
	onCall("wire/http-9", "Answers in HTTP/9.9.", rawBytes("HTTP/9.9 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")),
	onCall("wire/tls", "Answers with a TLS alert on a plain connection.", rawBytes("\x15\x03\x01\x00\x02\x02\x46")),
	onCall("wire/no-reason", "Leaves the reason out of the status line, which is valid.", func(req *request) {
		answer := req.answer()
		rawBytes(fmt.Sprintf("HTTP/1.1 200\r\nConnection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer))(req)
	}),
	onCall("wire/no-status", "Leaves the status code out of the status line.", rawBytes("HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n")),
	onCall("wire/status-0", "Answers with the status code 000.", rawReply("000 Nothing", []string{"Content-Length: 0"}, "")),
	onCall("wire/status-999", "Answers with the status code 999.", rawReply("999 Everything", []string{"Content-Length: 0"}, "")),
	onCall("wire/trickle", "Sends half of a status line and then nothing more.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 20")
			c.wait()
		})
	}),
	onCall("wire/garbage-for-ever", "Sends bytes that are not HTTP and hold no line feed, forever.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			for n := 0; n < maxFloodBytes && c.write("%s", block); n += len(block) {
				continue
			}
		})
	}),
	onCall("wire/length-too-long", "Declares a Content-Length larger than the body and closes the connection.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 5000"}, req.answer())(req)
	}),
	onCall("wire/length-too-long-open", "Declares a Content-Length larger than the body and keeps the connection open.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n%s", req.answer())
			c.wait()
		})
	}),
	onCall("wire/length-too-short", "Declares a Content-Length smaller than the body.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 12"}, req.answer())(req)
	}),
	onCall("wire/length-too-short-whole", "Sends a second, forged response after the first, which exposes clients that give it to the next request.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"Content-Type: application/json", sizeOf(answer)},
			answer+"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")(req)
	}),
	onCall("wire/two-lengths", "Declares two different Content-Lengths.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 5", "Content-Length: 500"}, req.answer())(req)
	}),
	onCall("wire/length-negative", "Declares a negative Content-Length.", func(req *request) {
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: -5"}, req.answer())(req)
	}),
	onCall("wire/length-and-chunks", "Declares both a Content-Length and a chunked body, which request smuggling uses.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"Content-Type: application/json", "Content-Length: 3", "Transfer-Encoding: chunked"},
			chunk(answer)+"0\r\n\r\n")(req)
	}),
	onCall("wire/chunks-cut", "Ends a chunked body in the middle of a chunk.", func(req *request) {
		answer := chunk(req.answer())
		rawReply("200 OK", chunked, answer[:len(answer)/2])(req)
	}),
	onCall("wire/chunks-unended", "Sends the answer in chunks but never the final empty chunk.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s\r\n\r\n%s", strings.Join(chunked, "\r\n"), chunk(req.answer()))
			c.wait()
		})
	}),
	onCall("wire/chunks-bad", "Sends a chunk whose size is not a number.", func(req *request) {
		rawReply("200 OK", chunked, "zz\r\n"+req.answer()+"\r\n0\r\n\r\n")(req)
	}),
	onCall("wire/chunk-size-huge", "Sends a chunk whose size fits no integer type.", func(req *request) {
		rawReply("200 OK", chunked, "ffffffffffffffffff\r\n"+req.answer())(req)
	}),
	onCall("wire/chunk-extensions", "Sends the body in chunks of one byte, each with an extension of two kilobytes, forever.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s\r\n\r\n", strings.Join(chunked, "\r\n"))
			for c.write("1;about=%s\r\n \r\n", block[:2<<10]) {
				continue
			}
		})
	}),
	onCall("wire/trailer-flood", "Sends trailers after the last chunk that never end.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s\r\n\r\n%s0\r\n", strings.Join(chunked, "\r\n"), chunk(req.answer()))
			for c.write("X-More: %s\r\n", block[:2<<10]) {
				continue
			}
		})
	}),
}

var chunked = []string{"Content-Type: application/json", "Transfer-Encoding: chunked"}

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// sizeOf returns the Content-Length line of a body.
func sizeOf(body string) string { return "Content-Length: " + strconv.Itoa(len(body)) }

// headMisbehaviours are about status lines and headers.
var headMisbehaviours = []Misbehaviour{
	onCall("head/10-mb", "Sends a header of more than 10 MB.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\nX-Story: ")
			for n := 0; n < 11<<20; n += len(block) {
				if !c.write("%s", block) {
					return
				}
			}
			c.write("\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(req.answer()), req.answer())
		})
	}),
	onCall("head/flood", "Sends 20,000 headers.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 200 OK\r\n%s", strings.Repeat("X-One-More: of these\r\n", 20_000))
			c.write("Connection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(req.answer()), req.answer())
		})
	}),
	onCall("head/endless", "Sends headers that never end.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			lines := strings.Repeat("X-One-More: of these\r\n", 1_000)
			for ok := c.write("HTTP/1.1 200 OK\r\n"); ok; ok = c.write("%s", lines) {
				continue
			}
		})
	}),
	onCall("head/no-colon", "Sends a header line without a colon that repeats the client's Authorization, which exposes clients that quote it in an error.", func(req *request) {
		rawReply("200 OK", []string{"you said " + req.http.Header.Get("Authorization"), "Content-Length: 0"}, "")(req)
	}),
	onCall("head/nul", "Sends a header that holds a NUL.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"X-Nul: a\x00b", "Content-Type: application/json", sizeOf(answer)}, answer)(req)
	}),
	onCall("head/folded", "Folds a header over three lines, an obsolete syntax.", func(req *request) {
		answer := req.answer()
		rawReply("200 OK", []string{"X-Long: one", "  two", "\tthree", "Content-Type: application/json", sizeOf(answer)}, answer)(req)
	}),
	onCall("head/hints", "Sends three 103 Early Hints before the answer.", func(req *request) {
		answer := req.answer()
		req.takeOverConn(func(c *rawConn) {
			c.write("%s", strings.Repeat(earlyHint, 3))
			c.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer)
		})
	}),
	onCall("head/hint-flood", "Sends 103 Early Hints forever.", func(req *request) {
		req.takeOverConn(func(c *rawConn) {
			for c.write("%s", strings.Repeat(earlyHint, 100)) {
				continue
			}
		})
	}),
	onCall("head/continue", "Sends 100 Continue before the answer, although the client did not expect it.", func(req *request) {
		answer := req.answer()
		req.takeOverConn(func(c *rawConn) {
			c.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", sizeOf(answer), answer)
		})
	}),
	onCall("head/switching", "Answers 101 Switching Protocols and waits for the client to speak the other protocol.", switching),
	onCall("head/cookies", "Sets cookies and rejects every request that returns one.", func(req *request) {
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
