import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RLock, driven as bench/peers/README.md says; peer=fair uses its fair lock. The lease is
 * 30 s by default, and Redisson's watchdog renews it.
 */
public final class Peer {
    private static final Map<String, String> options = new HashMap<>();

    private record Turn(long requested, long acquired, long releasing, long released) {}

    private static int number(String key) {
        return Integer.parseInt(options.get(key));
    }

    private static RLock lockOf(RedissonClient client, String name) {
        return options.get("peer").equals("fair") ? client.getFairLock(name) : client.getLock(name);
    }

    private static void work(RedissonClient client, int worker, long until, List<Turn> turns)
            throws InterruptedException {
        String name = options.get("name") + (options.get("names").equals("one") ? "" : ":" + worker);
        long hold = number("hold_ms") * 1000L;
        long pause = number("pause_ms");
        while (System.nanoTime() < until) {
            long requested = System.nanoTime();
            RLock lock = lockOf(client, name);
            lock.lock();
            long acquired = System.nanoTime();
            if (hold > 0) Thread.sleep((hold + ThreadLocalRandom.current().nextLong(hold / 4)) / 1000);
            long releasing = System.nanoTime();
            lock.unlock();
            turns.add(new Turn(requested, acquired, releasing, System.nanoTime()));
            if (pause > 0) Thread.sleep(pause);
        }
    }

    private static void run(RedissonClient client) throws Exception {
        long until = System.nanoTime() + (long) (Double.parseDouble(options.get("seconds")) * 1e9);
        List<List<Turn>> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < number("workers"); i++) {
            int worker = i;
            List<Turn> turns = new ArrayList<>();
            all.add(turns);
            Thread thread = new Thread(() -> {
                try {
                    work(client, worker, until, turns);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(options.get("out")))) {
            for (int i = 0; i < all.size(); i++)
                for (Turn t : all.get(i))
                    out.write(i + " " + t.requested + " " + t.acquired + " " + t.releasing + " " + t.released + "\n");
        }
    }

    private static void hold(RedissonClient client, BufferedReader in) throws Exception {
        List<RLock> locks = new ArrayList<>();
        for (int i = 0; i < number("locks"); i++) {
            RLock lock = client.getLock(options.get("name") + ":" + i);
            lock.lock();
            locks.add(lock);
        }
        System.out.println("held");
        in.readLine();
        if (locks.isEmpty()) throw new IllegalStateException();
    }

    public static void main(String[] args) throws Exception {
        for (String word : args) {
            String[] parts = word.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + options.get("port"));
        RedissonClient client = Redisson.create(config);
        RLock warm = client.getLock("warm:" + ProcessHandle.current().pid());
        warm.lock();
        warm.unlock();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        in.readLine();
        if (options.get("mode").equals("hold")) hold(client, in);
        else run(client);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
