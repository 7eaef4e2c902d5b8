package config

import (
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/nearest"
)

// foreignKeys belong to hosts and mean nothing here.
var foreignKeys = map[string]bool{
	"description": true, "dev": true, "gallery": true, "icon": true, "id": true, "name": true, "note": true, "source": true,
	"trust": true, "version": true, "$schema": true,
}

// entry is one server of the file, being read.
type entry struct {
	r      *reader
	name   string
	spec   mcpvisor.ServerSpec
	line   int
	broken bool

	kind     string // from type or transport
	kindAt   *hujson.Value
	stdio    mcpvisor.Stdio
	http     mcpvisor.HTTP
	httpURL  string // Gemini CLI's key for Streamable HTTP; its "url" is the older transport
	fileEnv  map[string]string
	disabled bool

	commandAt *hujson.Value
	tools     tools
}

// readers are the keys of an entry.
var readers = map[string]func(*entry, *hujson.Value){
	"command":       func(e *entry, v *hujson.Value) { e.path(v, &e.stdio.Command); e.commandAt = v },
	"args":          func(e *entry, v *hujson.Value) { e.stdio.Args = e.texts(v) },
	"env":           func(e *entry, v *hujson.Value) { e.stdio.Env = e.pairs(v) },
	"envFile":       (*entry).envFile,
	"cwd":           func(e *entry, v *hujson.Value) { e.stdio.Dir = e.filePath(v) },
	"url":           func(e *entry, v *hujson.Value) { e.text(v, &e.http.URL) },
	"serverUrl":     func(e *entry, v *hujson.Value) { e.text(v, &e.http.URL) },
	"httpUrl":       func(e *entry, v *hujson.Value) { e.text(v, &e.httpURL) },
	"headers":       func(e *entry, v *hujson.Value) { e.http.Headers = e.pairs(v) },
	"type":          func(e *entry, v *hujson.Value) { e.kind, _ = e.raw(v); e.kindAt = v },
	"transport":     func(e *entry, v *hujson.Value) { e.kind, _ = e.raw(v); e.kindAt = v },
	"disabled":      func(e *entry, v *hujson.Value) { e.flag(v, &e.disabled) },
	"enabled":       func(e *entry, v *hujson.Value) { on := true; e.flag(v, &on); e.disabled = e.disabled || !on },
	"inherit_env":   func(e *entry, v *hujson.Value) { e.flag(v, &e.stdio.InheritEnv) },
	"inheritEnv":    func(e *entry, v *hujson.Value) { e.flag(v, &e.stdio.InheritEnv) },
	"keep_daemons":  func(e *entry, v *hujson.Value) { e.flag(v, &e.stdio.KeepDaemons) },
	"keepDaemons":   func(e *entry, v *hujson.Value) { e.flag(v, &e.stdio.KeepDaemons) },
	"standby":       func(e *entry, v *hujson.Value) { e.flag(v, &e.spec.Standby) },
	"era":           (*entry).era,
	"retry":         (*entry).retry,
	"timeouts":      (*entry).timeouts,
	"timeout":       (*entry).timeout,
	"limits":        (*entry).limits,
	"probe":         (*entry).probe,
	"tools":         (*entry).toolsKey,
	"enabledTools":  func(e *entry, v *hujson.Value) { e.allowTools(v, "enabledTools") },
	"includeTools":  func(e *entry, v *hujson.Value) { e.allowTools(v, "includeTools") },
	"disabledTools": func(e *entry, v *hujson.Value) { e.denyTools(v) },
	"excludeTools":  func(e *entry, v *hujson.Value) { e.denyTools(v) },
	"autoApprove":   func(e *entry, v *hujson.Value) { e.approval(v, "autoApprove") },
	"alwaysAllow":   func(e *entry, v *hujson.Value) { e.approval(v, "alwaysAllow") },
	"auth":          (*entry).oauth,
	"oauth":         (*entry).oauth,
}

// entry reads one server and adds it to the file, or says why not.
func (r *reader) entry(server string, m *hujson.ObjectMember) {
	called := r.names[server]
	e := &entry{r: r, name: server, spec: mcpvisor.ServerSpec{Name: called, Policy: DefaultRetry, StartSupervised: true}}
	e.line = r.line(&m.Name)
	before := len(r.file.Problems)
	r.secrets = nil
	e.warnAboutName(&m.Name)
	object, ok := m.Value.Value.(*hujson.Object)
	if !ok {
		e.fail(&m.Value, "the entry is not an object; write {\"command\": …} or {\"url\": …}")
		return
	}
	e.members(object, readers, true)
	if e.disabled {
		// Nobody starts it, so what it lacks is nobody's problem.
		r.file.Problems = r.file.Problems[:before]
		r.file.Servers = append(r.file.Servers, Server{Spec: mcpvisor.ServerSpec{Name: called}, Entry: server, Line: e.line, Disabled: true})
		return
	}
	e.transport(&m.Value)
	e.applyTools()
	e.spec.Secrets = r.secrets
	if !e.broken {
		if err := e.spec.Validate(); err != nil {
			e.fail(&m.Value, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	if !e.broken {
		r.file.Servers = append(r.file.Servers, Server{Spec: e.spec, Entry: server, Line: e.line})
	}
}

// members reads an object by the readers of its keys, each of them once.
func (e *entry) members(object *hujson.Object, readers map[string]func(*entry, *hujson.Value), foreign bool) {
	seen := map[string]bool{}
	for i := range object.Members {
		m := &object.Members[i]
		key := name(m)
		read := readers[key]
		switch {
		case seen[key]:
			e.fail(&m.Name, "%q stands there twice; remove one of them", key)
		case read != nil:
			if _, null := literal(&m.Value, 'n'); !null { // null is as good as nothing
				read(e, &m.Value)
			}
		case foreign && foreignKeys[key]:
		default:
			e.unknown(&m.Name, key, readers)
		}
		seen[key] = true
	}
}

func (e *entry) unknown(at *hujson.Value, key string, readers map[string]func(*entry, *hujson.Value)) {
	known := make([]string, 0, len(readers))
	for k := range readers {
		known = append(known, k)
	}
	hint := "remove it"
	if near := nearest.Names(key, known); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q?", near[0])
	}
	e.warn(at, "unknown key %q is not used; %s", key, hint)
}

// transport decides what kind of server the entry describes.
func (e *entry) transport(at *hujson.Value) {
	if e.httpURL != "" {
		e.http.URL = e.httpURL
	}
	hasCommand, hasURL := e.stdio.Command != "", e.http.URL != ""
	if e.kindAt != nil {
		at = e.kindAt
	}
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(e.kind)) {
	case "":
	case "stdio", "local":
		if !hasCommand && !e.broken {
			e.fail(at, "it is of type %q and has no \"command\"; name the program to run", e.kind)
		}
	case "http", "streamablehttp", "remote":
		if !hasURL && !e.broken {
			e.fail(at, "it is of type %q and has no \"url\"; give the endpoint", e.kind)
		}
	case "sse": // deprecated since 2025-03-26
		if !hasURL && !e.broken {
			e.fail(at, "it is of type %q and has no \"url\"; give the address of the event stream", e.kind)
		}
		e.http.SSE = true
	default:
		e.fail(at, "type %q is unknown; use \"stdio\", \"http\" or \"sse\"", e.kind)
	}
	switch {
	case e.broken:
	case hasCommand && hasURL:
		e.fail(at, "it has both \"command\" and \"url\"; keep one of them")
	case hasCommand:
		if e.http.Auth != nil {
			e.warn(at, "\"auth\" is for an endpoint and not for a program; put credentials into \"env\"")
		}
		e.splitCommand()
		e.stdio.Env = merge(e.fileEnv, e.stdio.Env)
		e.spec.Stdio = &e.stdio
	case hasURL:
		e.spec.HTTP = &e.http
	default:
		e.fail(at, "it has neither \"command\" nor \"url\"; name the program to run or the endpoint")
	}
}

func merge(under, over map[string]string) map[string]string {
	if len(under) == 0 {
		return over
	}
	for k, v := range over {
		under[k] = v
	}
	return under
}

func (e *entry) fail(v *hujson.Value, format string, args ...any) {
	e.broken = true
	e.r.problem(v, e.name, SeverityError, format, args...)
}

func (e *entry) warn(v *hujson.Value, format string, args ...any) {
	e.r.problem(v, e.name, SeverityWarning, format, args...)
}
