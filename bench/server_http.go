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

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	in, out := bodies.Get().(*bytes.Buffer), bodies.Get().(*bytes.Buffer)
	defer bodies.Put(in)
	defer bodies.Put(out)
	in.Reset()
	out.Reset()
	if _, err := in.ReadFrom(r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := answerFast(out, in.Bytes(), false, nil); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if out.Len() == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Mcp-Session-Id"] = []string{"bench"}
	_, _ = w.Write(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}

// sdkHTTP is an ordinary go-sdk server.
func sdkHTTP() http.Handler {
	s := sdkServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})
}

// httpTarget starts a server process and returns how to reach it.
func httpTarget(kind string) (target, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return target{}, nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "BENCH_SERVER="+kind)
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
