package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// figures are what the sections have measured, by "section/row/client/figure".
var figures = map[string]float64{}

// currentSection is the name of the section that runs.
var currentSection string

// Names of figures. A ratio to another client is the name of the figure, " × " and the
// name of the client: the median of the ratios of paired rounds.
const (
	figureRate       = "per second"
	figureCPU        = "CPU µs/call"
	figureAllocs     = "allocs/call"
	figureBytes      = "B/call"
	figureOwnAllocs  = "allocs/call without the caller's"
	figureOwnBytes   = "B/call without the caller's"
	figureTime       = "ms"
	figureKB         = "KB allocated"
	figureGoroutines = "goroutines"
	figureHeap       = "heap and stack KB"
	figureRSS        = "RSS KB"
	figureAdded      = "µs added"
)

// Names of clients. The bare client is the floor: it moves the same bytes, and looks at
// nothing that it need not.
const (
	clientSDK         = "go-sdk"
	clientMCPGo       = "mcp-go"
	clientTS          = "TypeScript SDK"
	clientOurs        = "mcpvisor"
	clientRaw         = "mcpvisor raw"
	clientStandby     = "mcpvisor, standby"
	clientBare        = "bare"
	clientBareStandby = "bare, standby"
	bestPeer          = "best peer"
	gatewaySDK        = "SDK-built gateway"
	gatewayNPM        = "npm mcp-proxy"
	noGateway         = "no gateway"
)

func key(section, row, client, figure string) string {
	return strings.Join([]string{section, row, client, figure}, "/")
}

func over(figure, client string) string { return figure + " × " + client }

// record notes a figure of the section that runs. Zero means that it was not measured.
func record(row, client, figure string, value float64) {
	if value != 0 {
		figures[key(currentSection, row, client, figure)] = value
	}
}

// recordRatios notes the ratios of paired rounds of each client to each other one. ours
// returns the value of a client in a round.
func recordRatios(row, figure string, clients []string, rounds int, value func(client, round int) float64) {
	for i, a := range clients {
		for j, b := range clients {
			var all []float64
			for r := range rounds {
				if of, to := value(i, r), value(j, r); of > 0 && to > 0 {
					all = append(all, of/to)
				}
			}
			if i != j && len(all) > 0 {
				record(row, a, over(figure, b), median(all))
			}
		}
	}
}

// loadFigures adds the figures of a file to those of this run.
func loadFigures(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &figures); err != nil {
		return fmt.Errorf("%s is not what -save writes: %w", file, err)
	}
	return nil
}

// saveFigures writes figures to a file, sorted by name.
func saveFigures(file string, figures map[string]float64) error {
	text, err := json.MarshalIndent(figures, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
