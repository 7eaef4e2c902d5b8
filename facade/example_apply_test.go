package facade_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
)

// reload makes the servers of a client those of a file, as far as it can be used.
func reload(ctx context.Context, client *facade.Client, path string) {
	file, err := config.Load(path)
	if err != nil { // for example half written: all servers stay
		fmt.Println("not reloaded:", filepath.Base(path), "cannot be used")
		return
	}
	for _, p := range file.Problems {
		fmt.Println(p.Severity, "in", p.Server)
	}
	if err := client.Apply(ctx, file.Specs(), file.Broken()...); err != nil {
		fmt.Println(err)
	}
}

// A service that reads its file again for each SIGHUP. In the service, the signals come
// from signal.Notify(hangups, syscall.SIGHUP), and ctx from signal.NotifyContext.
func ExampleClient_Apply() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	client, err := facade.New()
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close(ctx) }()
	dir, err := os.MkdirTemp("", "reload")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, hangups := filepath.Join(dir, "mcp.json"), make(chan os.Signal, 1)
	for _, text := range []string{
		`{"mcpServers": {"fs": {"url": "http://127.0.0.1:1/fs"}, "web": {"url": "http://127.0.0.1:1/web"}}}`,
		"// A comment. web lacks a variable, and db is new.\n" +
			`{"mcpServers": {"fs": {"url": "http://127.0.0.1:1/fs"}, "web": {"url": "${UNSET_IN_THIS_EXAMPLE}"}, "db": {"url": "http://127.0.0.1:1/db"}}}`,
		`{"mcpServers": {"fs": `,
		`{"mcpServers": {"fs": {"url": "http://127.0.0.1:1/changed"}}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			panic(err)
		}
		hangups <- syscall.SIGHUP
		select { // the loop of the service
		case <-hangups:
			reload(ctx, client, path)
		case <-ctx.Done():
			return
		}
		var targets []string
		for _, s := range client.Status() {
			targets = append(targets, s.Target)
		}
		fmt.Println(targets)
	}
	// Output:
	// [http://127.0.0.1:1/fs http://127.0.0.1:1/web]
	// error in web
	// [http://127.0.0.1:1/db http://127.0.0.1:1/fs http://127.0.0.1:1/web]
	// not reloaded: mcp.json cannot be used
	// [http://127.0.0.1:1/db http://127.0.0.1:1/fs http://127.0.0.1:1/web]
	// [http://127.0.0.1:1/changed]
}
