package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/mcpvisor/mcpvisor/bench/internal/fast"
)

// serveHTTP serves on a loopback port, prints its URL on stdout, and ends with stdin.
func serveHTTP(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(l, h)
}

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// fastHTTP is the fast server over Streamable HTTP: plain JSON answers.
func fastHTTP(w http.ResponseWriter, r *http.Request) {
	answerHTTP(w, r, "application/json", "", "")
}

// streamHTTP is the same server, but each answer is an event stream of one event.
func streamHTTP(w http.ResponseWriter, r *http.Request) {
	answerHTTP(w, r, "text/event-stream", "event: message\ndata: ", "\n\n")
}

// answerHTTP answers a request with a body of that type: the message between before and
// after.
func answerHTTP(w http.ResponseWriter, r *http.Request, contentType, before, after string) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	in, out := bodies.Get().(*bytes.Buffer), bodies.Get().(*bytes.Buffer)
	defer bodies.Put(in)
	defer bodies.Put(out)
	in.Reset()
	out.Reset()
	out.WriteString(before)
	if _, err := in.ReadFrom(r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := fast.Answer(out, in.Bytes(), false, nil); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if out.Len() == len(before) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header()["Content-Type"] = []string{contentType}
	w.Header()["Mcp-Session-Id"] = []string{"bench"}
	out.Truncate(out.Len() - 1) // the line break of stdio
	out.WriteString(after)
	_, _ = w.Write(out.Bytes())
}

// httpTarget starts a server process and returns how to reach it.
func httpTarget(kind string, env ...string) (target, func(), error) {
	cmd := exec.Command(self())
	cmd.Env = append(append(os.Environ(), "BENCH_SERVER="+kind), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return target{}, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return target{}, nil, err
	}
	if err := cmd.Start(); err != nil {
		return target{}, nil, err
	}
	stop := func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return target{}, nil, err
	}
	return target{kind: kind, url: strings.TrimSpace(url), echoTool: "echo", echoArg: "text"}, stop, nil
}
