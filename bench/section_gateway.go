package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const gatewaySection = "gateway"

// npmProxy is where test/real/run installs mcp-proxy.
const npmProxy = "../test/real/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs"

// compareGateways compares gateways in front of the fast server over stdio. Each gateway is a
// process of its own, and one client calls all of them over HTTP. "no gateway" is that client
// and the fast server over HTTP.
func compareGateways(ctx context.Context) error {
	return errors.Join(compareGatewayCalls(ctx), compareGatewayPipe(ctx), measureGatewayList(), compareGatewaySessions())
}

func compareGatewayCalls(ctx context.Context) error {
	var drivers []driver
	for _, g := range []struct{ name, kind string }{{noGateway, "http"}, {gatewaySDK, "sdkgateway"}, {clientOurs, "gateway"}, {gatewayNPM, ""}} {
		d, err := newGatewayDriver(g.name, g.kind)
		if errors.Is(err, errNoTS) {
			fmt.Println("\nmcp-proxy is not installed (test/real/run) or there is no node: left out")
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		defer d.close()
		drivers = append(drivers, d)
	}
	w := newTable("Small echo over Streamable HTTP through a gateway to a server on stdio", "callers", "gateway", "per second", "× SDK-built gateway", "× npm mcp-proxy")
	ns, err := numbers(*callers)
	if err != nil {
		return err
	}
	for _, n := range ns {
		if n > 64 {
			continue
		}
		row := fmt.Sprint(n)
		got, err := compare(ctx, drivers, target{}, n, *rounds, *duration, echoLoad)
		if err != nil {
			return err
		}
		var names []string
		for _, d := range drivers {
			names = append(names, d.name())
		}
		recordRatios(row, figureRate, names, *rounds, func(client, round int) float64 { return got[client][round].perSecond })
		for i, name := range names {
			rate := median(field(got[i], func(s sample) float64 { return s.perSecond }))
			record(row, name, figureRate, rate)
			w.row(row, name, fmt.Sprintf("%.0f", rate), ratioTo(row, name, gatewaySDK, figureRate), ratioTo(row, name, gatewayNPM, figureRate))
		}
	}
	return w.end()
}

// compareGatewayPipe compares the latency of a call over stdio without a gateway, through the gateway,
// and through a process that only copies bytes: that is the floor of everything between a host and its
// server, and most of it is how soon the system lets a process run that has something to read.
func compareGatewayPipe(ctx context.Context) error {
	const calls = 2000
	names := []string{noGateway, clientBare, clientOurs}
	drivers := make([]driver, len(names))
	for i, kind := range []string{"fast", "relaypipe", "gatewaypipe"} {
		d, err := newPipeDriver(ctx, stdioTarget(kind))
		if err != nil {
			return err
		}
		defer d.close()
		drivers[i] = d
	}
	if err := drivers[2].(*pipeDriver).initialize(); err != nil {
		return err
	}
	took, added := make([][]float64, len(names)), make([][]float64, len(names))
	for range *rounds {
		for i, d := range drivers {
			a, err := middleLatency(ctx, d, calls)
			if err != nil {
				return err
			}
			took[i] = append(took[i], a)
			added[i] = append(added[i], a-took[0][len(took[0])-1])
		}
	}
	w := newTable("Small echo over stdio, one caller: half of the calls take less", "between host and server", "µs", "µs added")
	w.row(noGateway, fmt.Sprintf("%.1f", median(took[0])), "–")
	w.row("a process that copies bytes", fmt.Sprintf("%.1f", median(took[1])), fmt.Sprintf("%.1f", median(added[1])))
	w.row(clientOurs, fmt.Sprintf("%.1f", median(took[2])), fmt.Sprintf("%.1f", median(added[2])))
	for i := 1; i < len(names); i++ {
		record("stdio, p50", names[i], figureAdded, max(median(added[i]), 0.01)) // zero would mean that it was not measured
	}
	return w.end()
}

// middleLatency returns the median of the latencies of n calls, in microseconds.
func middleLatency(ctx context.Context, d driver, n int) (float64, error) {
	took := make([]float64, 0, n)
	for range n {
		began := time.Now()
		if _, err := d.echo(ctx, "c0-1000"); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
	}
	return median(took), nil
}

// measureGatewayList measures tools/list of 1,000 tools. The client reads into memory that it has: to make that while
// it reads, as io.ReadAll does, takes longer than all the rest.
func measureGatewayList() error {
	d, err := newGatewayDriver(clientOurs, "gateway", "BENCH_TOOLS=997")
	if err != nil {
		return err
	}
	defer d.close()
	var took []float64
	var answer bytes.Buffer
	for range 200 {
		began := time.Now()
		answer.Reset()
		if err := d.post(`{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}`, &answer); err != nil {
			return err
		}
		took = append(took, time.Since(began).Seconds()*1e3)
		if n := bytes.Count(answer.Bytes(), []byte(`"inputSchema"`)); n != 1000 {
			return fmt.Errorf("tools/list has %d tools, want 1000", n)
		}
	}
	w := newTable("tools/list of 1,000 tools, one caller", "gateway", "ms")
	w.row(clientOurs, fmt.Sprintf("%.3f", median(took)))
	record("list", clientOurs, figureTime, median(took))
	return w.end()
}

// idleSessions is how many sessions are opened and then left alone.
const idleSessions = 10_000

// compareGatewaySessions measures what idle sessions cost the process of a gateway, first
// without a stream, then with an open GET.
func compareGatewaySessions() error {
	w := newTable("Idle sessions, for each of them", "gateway", "sessions", "KB", "KB with an open event stream")
	for _, g := range []struct{ name, kind string }{{gatewaySDK, "sdkgateway"}, {clientOurs, "gateway"}} {
		d, err := newGatewayDriver(g.name, g.kind)
		if err != nil {
			return err
		}
		n := min(idleSessions, maxFiles()/2-200) // a stream is a file in both processes
		idle, streams, err := d.sessionCost(n)
		d.close()
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		record("session", g.name, figureHeap, max(idle, 0.01))
		record("session, stream", g.name, figureHeap, streams)
		w.row(g.name, fmt.Sprint(n), fmt.Sprintf("%.2f", idle), fmt.Sprintf("%.1f", streams))
	}
	return w.end()
}

// maxFiles is how many files a process may open.
func maxFiles() int {
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int(min(limit.Cur, 1<<20))
}

// gatewayDriver is a client over Streamable HTTP that looks at nothing but the text of an
// answer.
type gatewayDriver struct {
	label   string
	base    string // URL without a path
	client  *http.Client
	header  http.Header
	stop    func()
	buffers sync.Pool // of *httpBuffers
	lastID  atomic.Int64
}

// newGatewayDriver starts a gateway and opens a session. No kind means mcp-proxy.
func newGatewayDriver(name, kind string, env ...string) (*gatewayDriver, error) {
	d := &gatewayDriver{label: name, client: &http.Client{Transport: &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true}}}
	d.buffers.New = func() any { return new(httpBuffers) }
	var url string
	var err error
	if kind == "" {
		url, d.stop, err = startNPMProxy()
	} else {
		var t target
		t, d.stop, err = httpTarget(kind, env...)
		url = t.url
	}
	if err != nil {
		return nil, err
	}
	d.base = strings.TrimSuffix(url, "/mcp")
	if d.header, err = d.newSession(); err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

// newSession opens a session and returns the header of its requests.
func (d *gatewayDriver) newSession() (http.Header, error) {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	res, err := d.send(h, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		h = h.Clone()
		h.Set("Mcp-Session-Id", id)
	}
	h.Set("Mcp-Protocol-Version", "2025-11-25")
	if err != nil {
		return nil, err
	}
	res, err = d.send(h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err != nil {
		return nil, err
	}
	return h, res.Body.Close()
}

func (d *gatewayDriver) send(h http.Header, body string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, d.base+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	res, err := d.client.Do(req)
	if err == nil && res.StatusCode >= 300 {
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		err = fmt.Errorf("HTTP %d: %.200s", res.StatusCode, text)
	}
	return res, err
}

// post sends a message and reads the body of the answer.
func (d *gatewayDriver) post(body string, answer *bytes.Buffer) error {
	res, err := d.send(d.header, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = answer.ReadFrom(res.Body)
	return err
}

func (d *gatewayDriver) name() string { return d.label }

func (d *gatewayDriver) echo(ctx context.Context, text string) (string, error) {
	b := d.buffers.Get().(*httpBuffers)
	defer d.buffers.Put(b)
	b.out = appendCall(b.out[:0], int(d.lastID.Add(1)), "echo", `{"text":"`+text+`"}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+"/mcp", bytes.NewReader(b.out))
	if err != nil {
		return "", err
	}
	req.Header = d.header
	res, err := d.client.Do(req)
	if err != nil {
		return "", err
	}
	b.in.Reset()
	_, err = b.in.ReadFrom(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return "", err
	}
	got, err := rawText(b.in.Bytes())
	return strings.Clone(got), err
}

func (d *gatewayDriver) blob(context.Context, int) (string, error) { return "", errors.ErrUnsupported }

func (d *gatewayDriver) close() {
	d.client.CloseIdleConnections()
	d.stop()
}

// memory returns the heap and the stacks of the gateway, in bytes.
func (d *gatewayDriver) memory() (float64, error) {
	res, err := d.client.Get(d.base + "/memory")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var m memoryReport
	err = json.NewDecoder(res.Body).Decode(&m)
	return float64(m.Heap + m.Stacks), err
}

// sessionCost opens n sessions, then a stream for each, and returns what one costs, in KB.
func (d *gatewayDriver) sessionCost(n int) (idle, streams float64, err error) {
	before, err := d.memory()
	if err != nil {
		return 0, 0, err
	}
	headers := make([]http.Header, n)
	for i := range headers {
		if headers[i], err = d.newSession(); err != nil {
			return 0, 0, err
		}
	}
	opened, err := d.memory()
	if err != nil {
		return 0, 0, err
	}
	var bodies []io.Closer
	defer func() {
		for _, b := range bodies {
			_ = b.Close()
		}
	}()
	for _, h := range headers {
		req, err := http.NewRequest(http.MethodGet, d.base+"/mcp", nil)
		if err != nil {
			return 0, 0, err
		}
		req.Header = h.Clone()
		req.Header.Set("Accept", "text/event-stream")
		res, err := d.client.Do(req)
		if err != nil {
			return 0, 0, err
		}
		bodies = append(bodies, res.Body)
		if res.StatusCode != http.StatusOK {
			return 0, 0, fmt.Errorf("GET: HTTP %d", res.StatusCode)
		}
	}
	streaming, err := d.memory()
	return (opened - before) / float64(n) / 1e3, (streaming - before) / float64(n) / 1e3, err
}

// startNPMProxy starts mcp-proxy in front of the fast server.
func startNPMProxy() (url string, stop func(), err error) {
	node, err := exec.LookPath("node")
	script, found := filepath.Abs(npmProxy)
	if err != nil || found != nil || !exists(script) {
		return "", nil, errNoTS
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(node, script, "--host", "127.0.0.1", "--port", port, "--server", "stream", "--", fastServer)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	for range 300 { // node takes a second to listen
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return "http://" + address + "/mcp", stop, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return "", nil, errors.New("mcp-proxy does not listen")
}

// initialize opens the session of a pipe, which a gateway demands and the fast server does not.
func (a *pipeDriver) initialize() error {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}` + "\n"
	if _, err := io.WriteString(a.p.in, hello); err != nil {
		return err
	}
	if _, err := bufio.NewReader(a.p.out).ReadSlice('\n'); err != nil {
		return err
	}
	_, err := io.WriteString(a.p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return err
}
