// Command record writes what real servers list as tools into schema/testdata/catalogs, one
// file for each server with one tool per line. The tests of package schema read them.
//
//	cd test/real/record && npm install --ignore-scripts && go run . servers.json ../../../schema/testdata/catalogs
//
// The servers are those of servers.json. No server needs an account to list its tools; the
// keys in the file are placeholders. A server that does not start is reported, and its
// file is left as it is.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/config"
	"github.com/mcpvisor/mcpvisor/facade"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: record CONFIG FOLDER")
	}
	file, err := config.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	complete := true
	for _, server := range file.Servers {
		spec := server.Spec
		spec.StartSupervised = false
		n, err := record(spec, os.Args[2])
		if err != nil {
			complete = false
			fmt.Printf("%-24s %v\n", spec.Name, err)
			continue
		}
		fmt.Printf("%-24s %d tools\n", spec.Name, n)
	}
	if !complete {
		log.Fatal("not all servers were recorded")
	}
}

// record writes the tools of one server, and returns how many it has.
func record(spec mcpvisor.ServerSpec, folder string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := facade.New()
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := c.Register(ctx, spec); err != nil {
		return 0, err
	}
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	tools := c.Tools()
	for _, t := range tools {
		line, err := json.Marshal(t.Definition)
		if err != nil {
			return 0, err
		}
		if _, err := zip.Write(append(line, '\n')); err != nil {
			return 0, err
		}
	}
	if err := zip.Close(); err != nil {
		return 0, err
	}
	if len(tools) == 0 {
		return 0, fmt.Errorf("it lists no tools")
	}
	return len(tools), os.WriteFile(filepath.Join(folder, spec.Name+".jsonl.gz"), out.Bytes(), 0o600) //nolint:gosec // the folder is an argument
}
