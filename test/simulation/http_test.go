package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/backoff"
)

// runHTTP runs a server over HTTP until ctx ends: when an incarnation is killed, the next one listens after a while.
func (s *server) runHTTP(ctx context.Context) {
	for ctx.Err() == nil {
		s.w.mu.Lock()
		refuse := s.refuses > 0
		if refuse {
			s.refuses--
		}
		s.w.mu.Unlock()
		if refuse {
			sleep(ctx, 300*time.Millisecond)
			continue
		}
		s.w.mu.Lock()
		l := s.beginLocked(ctx)
		s.w.mu.Unlock()
		socket := s.w.net.listen(s.name + ".sim:80")
		// A short timeout would close a spare connection of the client at the instant at which it is used.
		web := &http.Server{Handler: l, ReadHeaderTimeout: time.Hour}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = web.Serve(socket)
		}()
		<-l.ctx.Done()
		_ = socket.Close() // first: no answer leaves any more
		_ = web.Close()
		<-done
		s.w.mu.Lock()
		l.ended = time.Now()
		s.lives = slices.DeleteFunc(s.lives, func(other *life) bool { return other == l })
		s.w.mu.Unlock()
		sleep(ctx, 150*time.Millisecond)
	}
}

func sleep(ctx context.Context, d time.Duration) { _ = backoff.Sleep(ctx, d) }

// ServeHTTP is one incarnation.
func (l *life) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.await() {
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s := l.s
	session := r.Header.Get("Mcp-Session-Id")
	s.w.mu.Lock()
	known := l.sessions[session]
	s.w.mu.Unlock()
	var m message
	if r.Method == http.MethodPost && json.Unmarshal(body, &m) != nil {
		s.w.fail("server %s got what is not JSON: %q", s.name, body)
		return
	}
	switch {
	case s.modern && r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !s.modern && m.Method != "initialize" && !known:
		http.Error(w, "session not found", http.StatusNotFound)
		return
	case r.Method == http.MethodDelete:
		s.w.mu.Lock()
		delete(l.sessions, session)
		s.w.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	case m.Method == "" && r.Method == http.MethodPost:
		l.answered(&m)
		w.WriteHeader(http.StatusAccepted)
		return
	case m.ID == nil && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == "initialize" && !s.modern {
		s.w.mu.Lock()
		l.nextSession++
		session = fmt.Sprintf("%s-%d-%d", s.name, l.number, l.nextSession)
		l.sessions[session] = true
		s.w.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", session)
	}
	m.session = session
	var mu sync.Mutex
	written, ended := false, false
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	}()
	stream := r.Method == http.MethodGet || m.Method == "subscriptions/listen" || len(m.ID) > 0 && m.ID[len(m.ID)-1]%2 == 0 || bytes.Contains(body, []byte(`"form":"ask"`))
	m.stream = stream
	m.write = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if ended || l.ctx.Err() != nil {
			return
		}
		if stream {
			if !written {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			_, _ = io.WriteString(w, "data: "+strings.TrimSuffix(text, "\n")+"\n\n")
		} else if !written {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		}
		written = true
		_ = http.NewResponseController(w).Flush()
	}
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		s.w.mu.Lock()
		l.listeners[&m] = true
		s.w.mu.Unlock()
	} else {
		l.handle(&m)
	}
	if r.Method == http.MethodGet || m.Method == "subscriptions/listen" {
		select {
		case <-r.Context().Done():
		case <-l.ctx.Done():
		}
		s.w.mu.Lock()
		delete(l.listeners, &m)
		s.w.mu.Unlock()
		return
	}
	if mu.Lock(); !written { // it never answers
		mu.Unlock()
		select {
		case <-r.Context().Done():
		case <-l.ctx.Done():
		}
		panic(http.ErrAbortHandler)
	}
	mu.Unlock()
}
