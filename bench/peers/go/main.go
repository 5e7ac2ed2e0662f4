// redsync (peer=redsync), bsm/redislock (peer=bsm) and rueidislock (peer=rueidis), driven as
// bench/peers/README.md says.
package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const lease = 30 * time.Second

// An adapter of a library. It acquires a name and returns a function that releases it, and one that
// extends it if the library does not renew by itself.
type held struct {
	release func() error
	extend  func() error
}

type acquireFunc func(ctx context.Context, name string) (held, error)

var options = map[string]string{}

func number(key string) int {
	n, err := strconv.Atoi(options[key])
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// CLOCK_MONOTONIC as other processes see it: read once, then advanced by Go's monotonic clock.
var (
	started   = time.Now()
	startedNs = monotonic()
)

func monotonic() int64 {
	var ts unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}

func now() int64 { return startedNs + int64(time.Since(started)) }

type record struct{ requested, acquired, releasing, released int64 }

func work(acquire acquireFunc, worker int, until int64) []record {
	ctx := context.Background()
	name := options["name"]
	if options["names"] != "one" {
		name += ":" + strconv.Itoa(worker)
	}
	hold := float64(number("hold_ms")) * float64(time.Millisecond)
	pause := time.Duration(number("pause_ms")) * time.Millisecond
	records := make([]record, 0, 1<<16)
	for now() < until {
		r := record{requested: now()}
		lock, err := acquire(ctx, name)
		check(err)
		r.acquired = now()
		if hold > 0 {
			time.Sleep(time.Duration(hold * (1 + rand.Float64()/4)))
		}
		r.releasing = now()
		check(lock.release())
		r.released = now()
		records = append(records, r)
		time.Sleep(pause)
	}
	return records
}

func run(acquire acquireFunc) {
	seconds, err := strconv.ParseFloat(options["seconds"], 64)
	check(err)
	until := now() + int64(seconds*1e9)
	all := make([][]record, number("workers"))
	var wait sync.WaitGroup
	for i := range all {
		wait.Add(1)
		go func() {
			defer wait.Done()
			all[i] = work(acquire, i, until)
		}()
	}
	wait.Wait()
	file, err := os.Create(options["out"])
	check(err)
	out := bufio.NewWriter(file)
	for worker, records := range all {
		for _, r := range records {
			fmt.Fprintln(out, worker, r.requested, r.acquired, r.releasing, r.released)
		}
	}
	check(out.Flush())
}

// Each lock is extended every third of its lease, evenly over that time.
func extendForEver(locks []held) {
	step := lease / 3 / time.Duration(len(locks))
	for due := time.Now(); ; {
		for _, lock := range locks {
			check(lock.extend())
			due = due.Add(step)
			time.Sleep(time.Until(due))
		}
	}
}

func hold(acquire acquireFunc, in *bufio.Reader) {
	locks := make([]held, number("locks"))
	for i := range locks {
		var err error
		locks[i], err = acquire(context.Background(), options["name"]+":"+strconv.Itoa(i))
		check(err)
	}
	if locks[0].extend != nil {
		go extendForEver(locks)
	}
	fmt.Println("held")
	in.ReadString('\n')
}

func main() {
	for _, word := range os.Args[1:] {
		key, value, _ := strings.Cut(word, "=")
		options[key] = value
	}
	acquire := map[string]func(addr string) acquireFunc{
		"redsync": redsyncPeer, "bsm": bsmPeer, "rueidis": rueidisPeer,
	}[options["peer"]]("127.0.0.1:" + options["port"])
	lock, err := acquire(context.Background(), "warm:"+strconv.Itoa(os.Getpid()))
	check(err)
	check(lock.release())
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	in.ReadString('\n')
	if options["mode"] == "hold" {
		hold(acquire, in)
	} else {
		run(acquire)
	}
}
