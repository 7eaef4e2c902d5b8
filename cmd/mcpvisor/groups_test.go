package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/cli"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/supervisor"
)

// writeGroups replaces the configuration of a background run, and reads it.
func (b *background) writeGroups(want int, servers, groups map[string]any) (out, errs string) {
	b.t.Helper()
	b.writeText(jsonText(b.t, map[string]any{"mcpServers": servers, "groups": groups}))
	return b.exits(want, "reload")
}

// awaitGroups waits until the groups are as wanted: "NAME STATE" of each.
func (b *background) awaitGroups(want ...string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		_, out, _ := b.command("--json", "status")
		var answer struct{ Groups []mcpvisor.GroupStatus }
		if json.Unmarshal([]byte(out), &answer) != nil {
			return false
		}
		var got []string
		for _, g := range answer.Groups {
			got = append(got, g.Name+" "+g.State)
		}
		return slices.Equal(want, got)
	}, time.Minute, 5*time.Millisecond, "%v", want)
}

// The groups of a configuration are those of the run, also after a reload. Groups that cannot be used leave those of
// before, and the servers continue.
func TestRun_groups(t *testing.T) {
	servers := map[string]any{"db": entry(mcptest.Script{}), "app": entryWith(map[string]any{"after": []string{"db"}}), "web": entry(mcptest.Script{})}
	b := startRun(t, servers, "run")
	b.await("(3 of 3 ready)")
	printed := make(chan string, 1)
	go func() {
		var all strings.Builder
		for line := range b.lines {
			all.WriteString(line + "\n")
		}
		printed <- all.String()
	}()
	before, _ := b.status(cli.ExitOK)
	front := map[string]any{"members": []string{"app", "web"}, "strategy": "rest_for_one", "after": []string{"db"}}
	out, _ := b.writeGroups(cli.ExitOK, servers, map[string]any{"front": front, "all": map[string]any{"members": []string{"db", "front"}}})
	_ = out // the run may have read the file before
	b.awaitGroups("all ready", "front ready")
	out, _ = b.exits(cli.ExitOK, "status")
	require.Regexp(t, `(?m)^GROUP +STATE +STRATEGY +MEMBERS +NOTE *\nall +ready +one_for_one +db, front *\nfront +ready +rest_for_one +app, web +in all; after db$`, out)
	after, _ := b.status(cli.ExitOK)
	require.Equal(t, before.pids(), after.pids())

	_, errs := b.writeGroups(cli.ExitUnavailable, servers, map[string]any{"front": map[string]any{"members": []string{"app", "weeb"}}})
	require.Regexp(t, `c\.json:1:\d+: no server or group is called "weeb", which "groups.front.members" names; did you mean "web"\?; the groups stay as they were`, errs)
	b.awaitGroups("all ready", "front ready")
	after, _ = b.status(cli.ExitOK)
	require.Equal(t, before.pids(), after.pids())
	_, out, _ = b.command("--json", "reload", "--dry-run")
	require.Contains(t, out, `"groupsProblem": "config `)

	// An entry that cannot be used keeps what it said before, and the groups do not fit that.
	broken := map[string]any{"db": servers["db"], "web": servers["web"], "app": map[string]any{"command": "x", "args": []string{"${MCPVISOR_TEST_NOT_SET}"}}}
	_, errs = b.writeGroups(cli.ExitUnavailable, broken, map[string]any{"g": map[string]any{"members": []string{"app", "db"}}})
	require.Regexp(t, `wait for each other in a circle; .*; the groups stay as they were`, errs)
	b.awaitGroups("all ready", "front ready")
	after, _ = b.status(cli.ExitUnavailable)
	require.Equal(t, before.pids(), after.pids())
	_, out, _ = b.command("--json", "reload")
	require.NotContains(t, out, `"also"`)

	// A group takes the name of a server that the same reload removes, and a server that of a group.
	delete(servers, "app")
	servers["front"] = entry(mcptest.Script{})
	b.writeGroups(cli.ExitOK, servers, map[string]any{"app": map[string]any{"members": []string{"db", "web"}}})
	b.awaitGroups("app ready")
	b.exits(cli.ExitOK, "--wait", "ready", "status")
	after, _ = b.status(cli.ExitOK)
	require.Len(t, after.pids(), 3)
	require.Equal(t, before.pids()["db"], after.pids()["db"])
	require.Equal(t, before.pids()["web"], after.pids()["web"])
	out, _ = b.exits(cli.ExitOK, "reload")
	require.Regexp(t, `^3 servers unchanged; reloaded`, out, "the groups are the same")
	b.writeGroups(cli.ExitOK, servers, map[string]any{})
	b.awaitGroups()
	b.interrupt()
	require.NotContains(t, <-printed, "reload failed")
}

// A run does not begin with groups that cannot be used: its servers would start too early.
func TestRun_with_groups_that_cannot_be_used(t *testing.T) {
	file := serversFile(t, map[string]any{"one": entry(mcptest.Script{})})
	b := &background{t: t, config: file}
	b.writeText(`{"mcpServers": {"one": {"command": "x"}}, "groups": {"g": {"members": ["two"]}}}`)
	require.Contains(t, toolExits(t, cli.ExitUsage, "--config", file, "run"), `no server or group is called "two"`)
}

// stop ends a server until start; status calls that healthy, and says what one that comes after it waits for.
func TestStop_and_start(t *testing.T) {
	servers := map[string]any{"db": entry(mcptest.Script{}), "app": entryWith(map[string]any{"after": []string{"db"}})}
	b := startRun(t, servers, "run")
	b.await("(2 of 2 ready)")
	b.drain()
	b.writeGroups(cli.ExitOK, servers, map[string]any{"back": map[string]any{"members": []string{"db"}}})
	out, _ := b.exits(cli.ExitOK, "stop", "db", "--drain")
	require.Regexp(t, `^db is stopped after \S+\n$`, out)
	out, _ = b.exits(cli.ExitOK, "status")
	require.Regexp(t, `(?m)^db +stopped .*mcpvisor start db starts it, and a reload does not$`, out)
	b.exits(cli.ExitOK, "--wait", "ready", "status")
	out, _ = b.exits(cli.ExitOK, "tools")
	require.NotContains(t, out, "db/")
	_, errs := b.exits(cli.ExitUnavailable, "restart", "app")
	require.Contains(t, errs, "server app is waiting after the restart: waits for db (stopped)")
	out, _ = b.exits(cli.ExitUnavailable, "--wait", "ready", "status")
	require.Regexp(t, `(?m)^app +waiting .*waits for db \(stopped\)$`, out)
	_, errs = b.exits(cli.ExitUnavailable, "start", "app")
	require.Contains(t, errs, "server app is waiting after the start: waits for db (stopped)")
	_, errs = b.exits(cli.ExitUsage, "stop", "back", "bac")
	require.Contains(t, errs, `mcpvisor run has no server "bac"`)

	out, _ = b.exits(cli.ExitOK, "start", "back", "app")
	require.Regexp(t, `^app is ready after \S+, pid \d+\ndb is ready after \S+, pid \d+\n$`, out)
	out, _ = b.exits(cli.ExitOK, "--json", "stop", "back")
	var answer struct{ Stopped []restarted }
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Len(t, answer.Stopped, 1)
	require.Equal(t, supervisor.StateStopped, answer.Stopped[0].State)
	require.ElementsMatch(t, []string{"db", "app", "back"}, candidates(t, "-c", b.config, "stop", ""))
	require.ElementsMatch(t, []string{"db", "app"}, candidates(t, "-c", b.config, "restart", ""))
	b.stop()
	require.ElementsMatch(t, []string{"app", "back"}, candidates(t, "-c", b.config, "start", "db", ""), "from the file")
}

// asleep reports whether status says so of a server.
func (b *background) asleep(server string) bool {
	_, out, _ := b.command("status")
	return regexp.MustCompile(`(?m)^` + server + ` +asleep .*it starts when it is wanted$`).MatchString(out)
}

// A server that nothing wants is listed, and healthy; a call starts it.
func TestRun_lazy_server(t *testing.T) {
	dir, server := recorded(t)
	server["start"], server["idle_stop"] = "lazy", "1h"
	b := startRun(t, map[string]any{"one": server}, "run")
	b.await("one  ")
	b.drain()
	b.exits(cli.ExitOK, "--wait", "ready", "status")
	require.Eventually(t, func() bool { return b.asleep("one") }, time.Minute, 5*time.Millisecond)
	b.exits(cli.ExitOK, "status")
	out, errs := b.exits(cli.ExitOK, "tools")
	require.Contains(t, out, "one/echo")
	require.Empty(t, errs)
	b.exits(cli.ExitOK, "tools", "one")
	require.Len(t, mcptest.PIDs(dir), 1, "for its lists")
	out, _ = b.exits(cli.ExitOK, "call", "one/echo", `{"text":"hello"}`)
	require.Equal(t, "hello", out)
	require.Len(t, mcptest.PIDs(dir), 2)
	all, _ := b.status(cli.ExitOK)
	require.Equal(t, supervisor.StateReady, all.Servers[0].State)
}

// Copies start in order, too, if all that a server comes after is started with it. One is not waited for whose
// predecessor has failed.
func TestCopies_order(t *testing.T) {
	servers := goodAndBad()
	servers["app"] = entryWith(map[string]any{"after": []string{"good"}, "start": "lazy"})
	servers["lost"] = entryWith(map[string]any{"after": []string{"g"}})
	file := serversFile(t, servers)
	b := &background{t: t, config: file}
	b.writeText(jsonText(t, map[string]any{"mcpServers": servers, "groups": map[string]any{"g": map[string]any{"members": []string{"bad"}}}}))
	out := toolExits(t, cli.ExitUnavailable, "--config", file, "--fresh", "status")
	require.Regexp(t, `(?m)^app +ready `, out)
	require.Regexp(t, `(?m)^lost +waiting .*waits for bad$`, out)
	out = toolExits(t, cli.ExitOK, "--config", file, "--fresh", "call", "app/echo", `{"text":"hello"}`)
	require.Contains(t, out, "a copy of app starts without good, which it comes after")
	require.Contains(t, out, "hello")
}

// inspect shows how a server came to where it is.
func TestInspect(t *testing.T) {
	_, server := recorded(t, mcptest.Fault{At: mcptest.StageCall, Do: mcptest.ActionExit, Code: 3, Starts: []int{1}})
	b := startReady(t, map[string]any{"one": server}, "run")
	b.drain()
	b.exits(cli.ExitFailed, "call", "one/echo", `{"text":"a"}`)
	b.exits(cli.ExitOK, "--wait", "ready", "status")
	out, errs := b.exits(cli.ExitOK, "inspect", "one")
	require.Empty(t, errs)
	require.Regexp(t, `^TIME +INPUT +STATE +EPOCH +EFFECTS +CAUSE\n`, out)
	require.Regexp(t, `(?m)^20\S+ \S+ +died +ready > closing +1 +\S.*end session +\S.*exit status 3`, out)
	require.Regexp(t, `(?m)^one is ready, registration 1\nactors: .*1 manager, .*1 supervisor; 0 messages for the manager$`, out)
	out, _ = b.exits(cli.ExitOK, "--json", "inspect", "one")
	var found monitor.Inspection
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.Equal(t, supervisor.StateReady, found.State)
	require.NotEmpty(t, found.Steps)
	_, errs = b.exits(cli.ExitUsage, "inspect", "onn")
	require.Contains(t, errs, `mcpvisor run has no server "onn"; did you mean one?`)
	require.Equal(t, []string{"one"}, candidates(t, "-c", b.config, "inspect", ""))
}
