import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/**
 * Feeds CSV files to Siddhi apps and takes their answers: SHARDS APP.siddhi COLLECT ANSWERS|- SLICE_MS then for each stream NAME TYPES FILE,FILE,...
 * (TYPES: a letter for each column after ts: l BIGINT, s text; the first is the key).  COLLECT is how answers become lines:
 * "each" (every event of Answers), "last" (the last event of each first column), "max" (the largest), "files" (BandCounts after each file).
 *
 * A shard is a thread with a Siddhi app of its own: it reads all files and feeds the rows whose key is its own.
 *
 * If SLICE_MS is not 0, a file is read when it is due, so long after the one before.  It is told when the last shard was done with it: an
 * app answers on the thread that sends it rows, so when `send` comes back, its answers have been called back.
 */
public final class Siddhi {
    static final int BATCH = 256;

    /** A CSV file's rows, one at a time; the day is worked out once, not for each row. */
    static final class Rows {
        final byte[] text;
        final String types;
        int at;
        int day = -1;
        long dayMillis;
        long ts;
        Object[] row;

        Rows(Path file, String types) throws IOException {
            this.text = Files.readAllBytes(file);
            this.types = types;
        }

        boolean next() {
            if (at >= text.length) {
                return false;
            }
            int date = digits(at, 4) * 10000 + digits(at + 5, 2) * 100 + digits(at + 8, 2);
            if (date != day) {
                day = date;
                dayMillis = LocalDate.of(date / 10000, date / 100 % 100, date % 100).toEpochDay() * 86_400_000L;
            }
            ts = dayMillis + digits(at + 11, 2) * 3_600_000L + digits(at + 14, 2) * 60_000L + digits(at + 17, 2) * 1000L + digits(at + 20, 3);
            at += 24;
            row = new Object[types.length() + 1];
            row[0] = ts;
            for (int i = 0; i < types.length(); i++) {
                int start = at;
                long number = 0;
                boolean text = types.charAt(i) == 's';
                for (byte b = this.text[at]; b != ',' && b != '\n' && b != '\r'; b = this.text[++at]) {
                    number = number * 10 + (b - '0');
                }
                row[i + 1] = text ? new String(this.text, start, at - start, StandardCharsets.ISO_8859_1) : (Object) number;
                at += this.text[at] == '\r' ? 2 : 1;
            }
            return true;
        }

        int digits(int from, int count) {
            int number = 0;
            for (int i = from; i < from + count; i++) {
                number = number * 10 + (text[i] - '0');
            }
            return number;
        }
    }

    /** Rows on their way into one stream of one app, sent a batch at a time. */
    static final class Feed {
        final InputHandler handler;
        Event[] batch = new Event[BATCH];
        int filled;

        Feed(InputHandler handler) {
            this.handler = handler;
        }

        void add(Rows rows) throws InterruptedException {
            batch[filled++] = new Event(rows.ts, rows.row);
            if (filled == BATCH) {
                flush();
            }
        }

        void flush() throws InterruptedException {
            handler.send(filled == BATCH ? batch : Arrays.copyOf(batch, filled));
            batch = new Event[BATCH];
            filled = 0;
        }
    }

    /** A thread with an app of its own, and what came out of it. */
    static final class Shard extends Thread {
        final int number;
        final int shards;
        final String collect;
        final boolean keep;
        final String[] streams;
        final long sliceNanos;
        final List<Long> done = new ArrayList<>();
        final SiddhiAppRuntime app;
        final List<Object[]> lines = new ArrayList<>();
        final Map<Object, Object[]> latest = new TreeMap<>();
        long answers;
        long started;
        Throwable failure;

        Shard(int number, int shards, String text, String collect, boolean keep, long sliceNanos, String[] streams) {
            this.number = number;
            this.shards = shards;
            this.collect = collect;
            this.keep = keep;
            this.sliceNanos = sliceNanos;
            this.streams = streams;
            app = new SiddhiManager().createSiddhiAppRuntime(text);
            if (!collect.equals("files")) {
                app.addCallback("Answers", new StreamCallback() {
                    @Override
                    public void receive(Event[] events) {
                        take(events);
                    }
                });
            }
            app.start();
        }

        void take(Event[] events) {
            answers += events.length;
            if (collect.equals("each")) {
                if (keep) {
                    for (Event event : events) {
                        lines.add(event.getData());
                    }
                }
            } else {
                for (Event event : events) {
                    latest.put(event.getData(0), event.getData());
                }
            }
        }

        @Override
        public void run() {
            try {
                feed();
            } catch (Throwable e) {
                failure = e;
            }
        }

        void feed() throws IOException, InterruptedException {
            int count = streams.length / 3;
            Feed[] feeds = new Feed[count];
            String[][] files = new String[count][];
            for (int s = 0; s < count; s++) {
                feeds[s] = new Feed(app.getInputHandler(streams[3 * s]));
                files[s] = streams[3 * s + 2].split(",");
            }
            for (int file = 0; file < files[0].length; file++) {
                waitUntilDue(file);
                List<Rows> open = new ArrayList<>();
                for (int s = 0; s < count; s++) {
                    open.add(new Rows(Path.of(files[s][file]), streams[3 * s + 1]));
                }
                merge(open, feeds);
                if (collect.equals("files")) {
                    long top = 0;
                    long bands = 0;
                    for (Event band : app.query("from BandCounts on n > 0 select max(n) as top, count() as bands")) {
                        top = (Long) band.getData(0);
                        bands = (Long) band.getData(1);
                    }
                    lines.add(new Object[] {(long) file, top, bands});
                    answers++;
                }
                done.add(System.nanoTime());
            }
        }

        void waitUntilDue(int file) throws InterruptedException {
            for (long early; (early = due(file) - System.nanoTime()) > 0;) {
                TimeUnit.NANOSECONDS.sleep(early);
            }
        }

        long due(int file) {
            return started + file * sliceNanos;
        }

        /** The rows of one file of each stream in the order of time, as far as they are of this shard. */
        void merge(List<Rows> open, Feed[] feeds) throws InterruptedException {
            boolean[] more = new boolean[feeds.length];
            for (int s = 0; s < feeds.length; s++) {
                more[s] = open.get(s).next();
            }
            for (;;) {
                int first = -1;
                for (int s = 0; s < feeds.length; s++) {
                    if (more[s] && (first < 0 || open.get(s).ts < open.get(first).ts)) {
                        first = s;
                    }
                }
                if (first < 0) {
                    break;
                }
                Rows rows = open.get(first);
                if (shards == 1 || Math.floorMod(rows.row[1].hashCode(), shards) == number) {
                    feeds[first].add(rows);
                }
                more[first] = rows.next();
            }
            for (Feed feed : feeds) {
                if (feed.filled > 0) {
                    feed.flush();
                }
            }
        }
    }

    /** Siddhi drops the rows that it fails on and only logs it: here the run fails. */
    static final class Fail extends AppenderSkeleton {
        @Override
        protected void append(LoggingEvent event) {
            if (event.getLevel().isGreaterOrEqual(Level.ERROR)) {
                System.err.println(event.getRenderedMessage());
                if (event.getThrowableInformation() != null) {
                    event.getThrowableInformation().getThrowable().printStackTrace();
                }
                Runtime.getRuntime().halt(1);
            }
        }

        @Override
        public void close() {}

        @Override
        public boolean requiresLayout() {
            return false;
        }
    }

    /** A line of nanoseconds, from when each file was due until all shards were done with it. */
    static void tellDelays(List<Shard> shards) {
        StringBuilder line = new StringBuilder();
        for (int file = 0; file < shards.get(0).done.size(); file++) {
            long last = 0;
            for (Shard shard : shards) {
                last = Math.max(last, shard.done.get(file) - shard.due(file));
            }
            line.append(last).append(' ');
        }
        System.out.println(line);
    }

    public static void main(String[] args) throws Exception {
        Logger.getRootLogger().addAppender(new Fail());
        int count = Integer.parseInt(args[0]);
        String text = Files.readString(Path.of(args[1]));
        boolean keep = !args[3].equals("-");
        String[] streams = Arrays.copyOfRange(args, 5, args.length);
        long sliceNanos = Long.parseLong(args[4]) * 1_000_000;
        List<Shard> shards = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            shards.add(new Shard(i, count, text, args[2], keep, sliceNanos, streams));
        }
        long started = System.nanoTime();
        for (Shard shard : shards) {
            shard.started = started;
            shard.start();
        }
        long answers = 0;
        for (Shard shard : shards) {
            shard.join();
            if (shard.failure != null) {
                shard.failure.printStackTrace();
                System.exit(1);
            }
            answers += shard.answers;
        }
        List<Object[]> lines = new ArrayList<>();
        Map<Object, Object[]> latest = new TreeMap<>();
        for (Shard shard : shards) {
            lines.addAll(shard.lines);
            shard.latest.forEach((key, line) -> latest.merge(key, line, args[2].equals("max")
                ? (a, b) -> (Long) a[1] >= (Long) b[1] ? a : b : (a, b) -> b));
        }
        lines.addAll(latest.values());
        double seconds = (System.nanoTime() - started) / 1e9;
        if (keep) {
            try (BufferedWriter out = Files.newBufferedWriter(Path.of(args[3]))) {
                for (Object[] line : lines) {
                    for (int i = 0; i < line.length; i++) {
                        out.write(i == 0 ? "" : ",");
                        out.write(String.valueOf(line[i]));
                    }
                    out.write('\n');
                }
            }
        }
        if (sliceNanos > 0) {
            tellDelays(shards);
        }
        System.out.println(seconds + " " + (latest.isEmpty() ? answers : latest.size()));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
