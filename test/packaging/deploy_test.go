package packaging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/mcpvisor/mcpvisor/config"
)

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, parts...)...))
	require.NoError(t, err)
	return string(text)
}

// The image has a static program that is process 1 and runs without rights.
func TestDockerfile(t *testing.T) {
	text := read(t, "deploy", "Dockerfile")
	last := text[strings.LastIndex(text, "\nFROM "):]
	for _, pattern := range []string{`(?m)^USER 65532:65532$`, `(?m)^ENTRYPOINT \["/usr/local/bin/mcpvisor"\]$`, `(?m)^CMD \["run"\]$`, `(?m)^COPY --from=build /mcpvisor /usr/local/bin/mcpvisor$`} {
		require.Regexp(t, pattern, last)
	}
	require.Contains(t, text, "CGO_ENABLED=0 go build -trimpath")
	module := read(t, "go.mod")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(module)[1]
	require.Contains(t, text, "FROM golang:"+version+" AS build", "the version of go.mod, in an image with git")
	require.NotContains(t, read(t, ".dockerignore"), ".git", "the program reports its commit")
	require.NotContains(t, read(t, ".dockerignore"), "go.work", "the program is built in the workspace")
}

// The unit has what run does: it notifies, answers the watchdog and ends its servers.
func TestUnit(t *testing.T) {
	text := read(t, "deploy", "systemd", "mcpvisor.service")
	for _, line := range []string{"Type=notify", "NotifyAccess=main", "WatchdogSec=30s", "KillMode=mixed", "RestartPreventExitStatus=2", "ExecReload=/usr/bin/mcpvisor --config /etc/mcpvisor/mcp.json reload", "DynamicUser=yes", "SupplementaryGroups=mcpvisor-users", "RuntimeDirectoryMode=0711"} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	_, err := config.Parse([]byte(read(t, "deploy", "systemd", "mcp.json")), "mcp.json")
	require.NoError(t, err)
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed, so the unit is not verified")
	}
	path := builtProgram(t)
	unit := filepath.Join(t.TempDir(), "mcpvisor.service")
	text = strings.ReplaceAll(text, "/usr/bin/mcpvisor", path)
	require.NoError(t, os.WriteFile(unit, []byte(text), 0o600))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, filepath.Base(unit)+":", "a line that systemd does not know")
	}
}

// The example for Kubernetes runs the image with what it needs, and its configuration and
// its probes are those that the program has.
func TestSidecar(t *testing.T) {
	all := documents(t, "deploy", "kubernetes", "sidecar.yaml")
	require.Len(t, all, 3)
	data, ok := all[0]["data"].(map[string]any)
	require.True(t, ok)
	text, ok := data["mcp.json"].(string)
	require.True(t, ok)
	f, err := config.Parse([]byte(text), "mcp.json")
	require.NoError(t, err)
	for _, p := range f.Problems {
		require.Contains(t, p.Message, "${file:/run/secrets/mcpvisor/github}", "only the secret is missing here")
	}
	sidecar := at(t, all[2], "spec", "template", "spec", "initContainers", 0)
	require.Equal(t, "Always", at(t, sidecar, "restartPolicy"))
	require.Equal(t, "/healthz", at(t, sidecar, "livenessProbe", "httpGet", "path"))
	require.Equal(t, "/readyz", at(t, sidecar, "readinessProbe", "httpGet", "path"))
	require.Equal(t, true, at(t, sidecar, "securityContext", "readOnlyRootFilesystem"))
	require.Equal(t, true, at(t, all[2], "spec", "template", "spec", "securityContext", "runAsNonRoot"))
	require.Equal(t, 65532, at(t, all[2], "spec", "template", "spec", "securityContext", "runAsUser"), "the user of the image")
}

// documents reads a file of YAML documents.
func documents(t *testing.T, parts ...string) (all []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(read(t, parts...))); ; {
		var one map[string]any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, one)
	}
}

// kind returns the documents of a kind.
func kind(all []map[string]any, wanted string) (found []map[string]any) {
	for _, one := range all {
		if one["kind"] == wanted {
			found = append(found, one)
		}
	}
	return found
}

// The manifests of a fleet fit together: names, ports, certificates, and the time that an end takes.
// Package main of the program tests the arguments.
func TestFleetManifests(t *testing.T) {
	nodes, etcd := documents(t, "deploy", "kubernetes", "fleet", "nodes.yaml"), documents(t, "deploy", "kubernetes", "fleet", "etcd.yaml")
	for _, all := range [][]map[string]any{nodes, etcd} {
		set := kind(all, "StatefulSet")[0]
		spec := at(t, set, "spec", "template", "spec")
		container := at(t, spec, "containers", 0)
		require.Equal(t, 3, at(t, set, "spec", "replicas"))
		require.Equal(t, at(t, set, "spec", "selector", "matchLabels"), at(t, set, "spec", "template", "metadata", "labels"))
		require.Equal(t, true, at(t, spec, "securityContext", "runAsNonRoot"))
		require.Equal(t, true, at(t, container, "securityContext", "readOnlyRootFilesystem"))
		require.Equal(t, 1, at(t, kind(all, "PodDisruptionBudget")[0], "spec", "maxUnavailable"), "a majority stays")
		// Peers are found by name before they are ready: a node that waits for others would never be.
		headless := kind(all, "Service")[0]
		require.Equal(t, "None", at(t, headless, "spec", "clusterIP"))
		require.Equal(t, true, at(t, headless, "spec", "publishNotReadyAddresses"))
		require.Equal(t, at(t, headless, "metadata", "name"), at(t, set, "spec", "serviceName"))
		for _, service := range kind(all, "Service") {
			require.Equal(t, at(t, set, "spec", "template", "metadata", "labels"), at(t, service, "spec", "selector"))
			for _, port := range at(t, service, "spec", "ports").([]any) {
				require.True(t, hasPort(t, container, at(t, port, "name"), at(t, port, "port")), "%v", port)
			}
		}
		for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
			name := at(t, container, probe, "httpGet", "port")
			require.True(t, hasPort(t, container, name, nil), "%v", name)
		}
		volumes := map[any]bool{}
		for _, v := range at(t, spec, "volumes").([]any) {
			volumes[at(t, v, "name")] = true
		}
		if claims, ok := at(t, set, "spec").(map[string]any)["volumeClaimTemplates"].([]any); ok {
			volumes[at(t, claims[0], "metadata", "name")] = true
		}
		for _, m := range at(t, container, "volumeMounts").([]any) {
			require.True(t, volumes[at(t, m, "name")], "%v", m)
		}
	}
	set := kind(nodes, "StatefulSet")[0]
	require.Equal(t, "/healthz", at(t, set, "spec", "template", "spec", "containers", 0, "livenessProbe", "httpGet", "path"))
	require.Equal(t, "/readyz", at(t, set, "spec", "template", "spec", "containers", 0, "readinessProbe", "httpGet", "path"))
	require.Greater(t, at(t, set, "spec", "template", "spec", "terminationGracePeriodSeconds"), 40+15, "--leave-timeout, and the end of servers")
	text := read(t, "deploy", "kubernetes", "fleet", "nodes.yaml")
	members := kind(etcd, "StatefulSet")[0]
	for i := range 3 {
		require.Contains(t, text, fmt.Sprintf("https://%s-%d.%s:2379", at(t, members, "metadata", "name"), i, at(t, members, "spec", "serviceName")))
		require.Contains(t, text, fmt.Sprintf("fleet certs certs mcpvisor-0 mcpvisor-1 mcpvisor-2 etcd operator --host '*.%s'", at(t, members, "spec", "serviceName")))
	}
	for _, all := range [][]map[string]any{nodes, etcd} {
		secret := at(t, kind(all, "StatefulSet")[0], "spec", "template", "spec", "volumes", 0, "secret", "secretName")
		require.Contains(t, text, fmt.Sprintf("kubectl create secret generic %s ", secret), "nodes.yaml says how it is made")
	}
}

// hasPort reports whether a container has a port of a name and, unless that is nil, of a number.
func hasPort(t *testing.T, container, name, number any) bool {
	t.Helper()
	for _, port := range at(t, container, "ports").([]any) {
		if at(t, port, "name") == name && (number == nil || at(t, port, "containerPort") == number) {
			return true
		}
	}
	return false
}

// at returns a part of a YAML document.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, ok := v.(map[string]any)
			require.True(t, ok, "%v", path)
			v = object[step]
		case int:
			list, ok := v.([]any)
			require.True(t, ok && len(list) > step, "%v", path)
			v = list[step]
		}
	}
	return v
}

// The package is built, installed into a directory of its own, and removed again. It is made
// of the list that goreleaser reads.
func TestPackage(t *testing.T) {
	for _, tool := range []string{"dpkg-deb", "dpkg"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	path := builtProgram(t)
	p := readRelease(t).Nfpms[0]
	tree := t.TempDir()
	install := func(dst string, text []byte, mode os.FileMode) {
		target := filepath.Join(tree, filepath.FromSlash(dst))
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
		require.NoError(t, os.WriteFile(target, text, mode))
	}
	binary, err := os.ReadFile(path)
	require.NoError(t, err)
	install(p.Bindir+"/mcpvisor", binary, 0o755)
	var conffiles []string
	for _, c := range p.Contents {
		if c.Packager == "rpm" {
			continue
		}
		text := []byte("made by release-files\n")
		if !strings.HasPrefix(c.Src, ".release/") {
			text = []byte(read(t, filepath.FromSlash(c.Src)))
		}
		install(c.Dst, text, 0o644)
		if strings.HasPrefix(c.Type, "config") {
			conffiles = append(conffiles, c.Dst+"\n")
		}
	}
	architecture, err := exec.Command("dpkg", "--print-architecture").Output()
	require.NoError(t, err)
	install("DEBIAN/control", []byte("Package: "+p.PackageName+"\nVersion: 0.0.1\nArchitecture: "+string(bytes.TrimSpace(architecture))+"\nMaintainer: "+p.Maintainer+
		"\nSection: "+p.Section+"\nPriority: optional\nHomepage: "+p.Homepage+"\nDescription: "+p.Description+"\n"), 0o644)
	install("DEBIAN/conffiles", []byte(strings.Join(conffiles, "")), 0o644)
	deb := filepath.Join(t.TempDir(), "mcpvisor.deb")
	out, err := exec.Command("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, deb).CombinedOutput()
	require.NoError(t, err, "%s", out)

	machine := t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		require.NoError(t, os.MkdirAll(filepath.Join(machine, "var/lib/dpkg", dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(machine, "var/lib/dpkg/status"), nil, 0o644))
	dpkg := func(args ...string) {
		out, err := exec.Command("dpkg", append([]string{"--root=" + machine, "--force-not-root", "--force-bad-path"}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	dpkg("--install", deb)
	out, err = exec.Command(filepath.Join(machine, "usr/bin/mcpvisor"), "--config", filepath.Join(machine, "etc/mcpvisor/mcp.json"), "config").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.FileExists(t, filepath.Join(machine, "usr/lib/systemd/system/mcpvisor.service"))
	own := filepath.Join(machine, "etc/mcpvisor/mcp.json")
	require.NoError(t, os.WriteFile(own, []byte(`{"mcpServers": {"mine": {"command": "x"}}}`), 0o600))
	dpkg("--remove", "mcpvisor")
	require.NoFileExists(t, filepath.Join(machine, "usr/bin/mcpvisor"))
	require.FileExists(t, own, "the configuration of the user stays")
}
