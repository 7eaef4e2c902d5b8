// Package control serves the servers of one client to the commands of mcpvisor: over the
// unix socket of `mcpvisor run`, or within one process. It is package web with controls,
// and what only the commands need, under /run/.
//
// It trusts everyone who can connect. The unix socket admits only its user.
package control

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/web"
)

// Schema names the shape of the answers below /run/. A command refuses another one.
const Schema = "run/v2"

// Info is the answer of GET /run/info: the process that serves.
type Info struct {
	Schema  string    `json:"schema"` // Schema
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Config is the path of the configuration file, and Digest a hash of its content when
	// it was read.
	Config string `json:"config"`
	Digest string `json:"digest"`
	// URL is the address of the page; empty without one.
	URL string `json:"url,omitempty"`
	// Servers are the names of all servers, also of those that are not registered yet.
	Servers []string `json:"servers"`
	// Entries are the entries of the file that the servers were made from, as far as their
	// names differ, by server.
	Entries map[string]string `json:"entries,omitempty"`
	// Unusable are the entries of the file that are not usable servers.
	Unusable []Unusable `json:"unusable,omitempty"`
}

// Unusable is an entry of the file that is not a usable server.
type Unusable struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Handler serves a client. Safe for concurrent use.
type Handler struct {
	client *facade.Client
	info   Info
	web    *web.Handler
	routes *http.ServeMux
	masks  map[string]*strings.Replacer // of the secrets that a server was given, by server
}

// New makes a handler. The Schema of info is set here. Lists hide the secrets that their
// servers were given by specs.
func New(client *facade.Client, info Info, specs ...mcpvisor.ServerSpec) (*Handler, error) {
	page, err := web.New(client, web.Controls())
	if err != nil {
		return nil, err
	}
	info.Schema = Schema
	h := &Handler{client: client, info: info, web: page, routes: http.NewServeMux(), masks: masksOf(specs)}
	h.routes.Handle("/", page)
	h.routes.HandleFunc("GET /run/info", h.getInfo)
	h.routes.HandleFunc("GET /run/tools", h.getTools)
	h.routes.HandleFunc("GET /run/resources", h.getResources)
	h.routes.HandleFunc("GET /run/prompts", h.getPrompts)
	h.routes.HandleFunc("POST /run/call", h.postCall)
	h.routes.HandleFunc("POST /run/read", h.postRead)
	h.routes.HandleFunc("POST /run/prompt", h.postPrompt)
	return h, nil
}

// Close ends the event streams. Call it before http.Server.Shutdown, which waits for them.
func (h *Handler) Close() { h.web.Close() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.routes.ServeHTTP(w, r) }

func (h *Handler) getInfo(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.info) }

// ReadRequest is the body of POST /run/read.
type ReadRequest struct {
	Server string `json:"server"`
	URI    string `json:"uri"`
}

func (h *Handler) postRead(w http.ResponseWriter, r *http.Request) {
	var read ReadRequest
	if !readBody(w, r, &read) {
		return
	}
	result, err := h.client.ReadResource(r.Context(), read.Server, read.URI)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, readJSON(result))
}

// PromptRequest is the body of POST /run/prompt.
type PromptRequest struct {
	Server    string            `json:"server"`
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments,omitempty"`
}

func (h *Handler) postPrompt(w http.ResponseWriter, r *http.Request) {
	var prompt PromptRequest
	if !readBody(w, r, &prompt) {
		return
	}
	result, err := h.client.GetPrompt(r.Context(), prompt.Server, prompt.Name, prompt.Arguments)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, result)
}

// readBody decodes the body of a request. If it cannot, the request is answered and ok is
// false.
func readBody(w http.ResponseWriter, r *http.Request, into any) (ok bool) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxArguments)).Decode(into); err != nil {
		writeError(w, &mcpvisor.Error{Kind: mcpvisor.KindInvalid, Outcome: mcpvisor.OutcomeNotSent, Cause: err})
		return false
	}
	return true
}

func writeJSON(w http.ResponseWriter, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data)
}

// writeError writes an error in the form of package web. The status says only that it is
// one; the kind says which.
func writeError(w http.ResponseWriter, err error) {
	data, err := json.Marshal(web.ErrorAnswer{Error: detailOf(err)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write(data)
}

// detailOf describes an error in the form of package web.
func detailOf(err error) web.ErrorDetail {
	detail := web.ErrorDetail{Message: err.Error()}
	if e := (*mcpvisor.Error)(nil); errors.As(err, &e) {
		detail.Kind, detail.Outcome, detail.Server, detail.RetryAfterMs = e.Kind, e.Outcome, e.Server, e.RetryAfter.Milliseconds()
	}
	return detail
}
