package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// system is one node of one of the systems that are compared.
type system interface {
	// apply makes these the servers of the cluster.
	apply(names []string)
	// call calls the server of a name, wherever it is. wait: while the server moves, the call waits;
	// the actor library always does. notSent: it failed, and certainly no server has seen it.
	call(name string, args json.RawMessage, timeout time.Duration, wait bool) (notSent bool, err error)
	// members is how many nodes this one sees, itself included.
	members() int
	// leave hands over all servers, and ends the node.
	leave()
}

// nodeConfig says what a process is.
type nodeConfig struct {
	System   string // a key of systems
	Node     string
	Cluster  string // of this name in etcd
	Etcd     string
	Folder   string // for its log; has the certificates
	LogCalls bool
	Stdio    bool   // servers are processes
	Server   string // this process is the server of that name, and not a node
}

const nodeVariable = "BENCH_CLUSTER_NODE"

// variable is the configuration as an entry of the environment.
func (c *nodeConfig) variable() string { return nodeVariable + "=" + string(must(json.Marshal(c))) }

// The systems that are compared, in the order of the columns.
const (
	theirs    = "actor library"
	ours      = "fleet"
	unguarded = "fleet without guards"
)

var systems = map[string]func(nodeConfig, *log) system{theirs: newProtoactor, ours: newFleet, unguarded: newFleet}

// question is what the program asks a node on its stdin, and answer what the node says on its
// stdout.
type question struct {
	Op      string
	Names   []string
	Size    int // of arguments in bytes
	Callers int
	For     time.Duration // how long to measure
	Timeout time.Duration // of each call
	Every   time.Duration // each name is called so often
	Wait    bool          // calls wait while their server moves
}

type answer struct {
	Error   string
	Members int
	Load    load
	Calls   []call
}

// load is what a number of callers did.
type load struct {
	Failed, Hung int64 // Failed includes Hung
	PerSecond    float64
}

// call is one call of a probe, in times of CLOCK_BOOTTIME.
type call struct {
	Name       string
	Begin, End time.Duration
	OK         bool
	NotSent    bool // it failed, and no server has seen it
}

// runNode is the program of a node or a server, if this process was started as one.
func runNode() (is bool) {
	text := os.Getenv(nodeVariable)
	if text == "" {
		return false
	}
	var c nodeConfig
	check(json.Unmarshal([]byte(text), &c))
	if c.Server != "" {
		serveServer(c)
	} else {
		serveNode(c)
	}
	return true
}

func serveNode(c nodeConfig) {
	s := systems[c.System](c, openLog(filepath.Join(c.Folder, c.Node+".log"), c))
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var p *probe
	for check(out.Encode(answer{})); ; {
		var q question
		if in.Decode(&q) != nil {
			return // the program has ended
		}
		var a answer
		switch q.Op {
		case "apply":
			s.apply(q.Names)
		case "touch":
			a.Error = touch(s, q)
		case "members":
			a.Members = s.members()
		case "load":
			a.Load = runLoad(s, q)
		case "probe":
			p = startProbe(s, q)
		case "probed":
			a.Calls = p.stop()
		case "leave":
			s.leave()
		}
		check(out.Encode(a))
	}
}

// touch calls each name until it answers.
func touch(s system, q question) (failure string) {
	args := arguments(q.Size)
	errs := make(chan error, len(q.Names))
	for _, name := range q.Names {
		go func() {
			var err error
			for end := now() + q.For; now() < end; time.Sleep(20 * time.Millisecond) {
				if _, err = s.call(name, args, q.Timeout, true); err == nil {
					break
				}
			}
			errs <- err
		}()
	}
	for range q.Names {
		if err := <-errs; err != nil {
			failure = err.Error()
		}
	}
	return failure
}

// hung: a call that took its whole timeout.
func hung(took, timeout time.Duration) bool { return took >= timeout-50*time.Millisecond }

// runLoad lets callers call names in turn.
func runLoad(s system, q question) load {
	args := arguments(q.Size)
	var done, failed, slow, turn atomic.Int64
	begin := now()
	var callers sync.WaitGroup
	for range q.Callers {
		callers.Go(func() {
			for at := begin; at-begin < q.For; {
				_, err := s.call(q.Names[int(turn.Add(1))%len(q.Names)], args, q.Timeout, false)
				end := now()
				switch {
				case err == nil && end-begin < q.For:
					done.Add(1)
				case err != nil:
					failed.Add(1)
					if hung(end-at, q.Timeout) {
						slow.Add(1)
					}
				}
				at = end
			}
		})
	}
	callers.Wait()
	return load{Failed: failed.Load(), Hung: slow.Load(), PerSecond: float64(done.Load()) / q.For.Seconds()}
}

// probe calls each name at regular times, whether or not the calls before have ended.
type probe struct {
	end, ended chan struct{} // ended: no further call is begun
	calls      sync.WaitGroup

	mu  sync.Mutex
	all []call // guarded by mu
}

func startProbe(s system, q question) *probe {
	p := &probe{end: make(chan struct{}), ended: make(chan struct{})}
	args := arguments(q.Size)
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(q.Every / time.Duration(len(q.Names)))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
			case <-p.end:
				return
			}
			p.calls.Go(func() {
				c := call{Name: q.Names[i%len(q.Names)], Begin: now()}
				notSent, err := s.call(c.Name, args, q.Timeout, q.Wait)
				c.End, c.OK, c.NotSent = now(), err == nil, notSent
				p.mu.Lock()
				p.all = append(p.all, c)
				p.mu.Unlock()
			})
		}
	}()
	return p
}

// stop waits for the calls that have begun.
func (p *probe) stop() []call {
	close(p.end)
	<-p.ended
	p.calls.Wait()
	return p.all
}

// credentialsOf reads the certificate of a node, and the authority.
func credentialsOf(c nodeConfig) (cert tls.Certificate, authorities *x509.CertPool) {
	text := must(os.ReadFile(filepath.Join(c.Folder, c.Node+".pem")))
	authorities = x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(must(os.ReadFile(filepath.Join(c.Folder, "authority.pem")))) {
		panic("the file of the authority has no certificate")
	}
	return must(tls.X509KeyPair(text, text)), authorities
}
