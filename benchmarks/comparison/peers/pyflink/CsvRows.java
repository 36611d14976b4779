import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.assigners.SimpleSplitAssigner;
import org.apache.flink.connector.file.src.reader.SimpleStreamFormat;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.core.fs.FSDataInputStream;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * CSV files, one after the other, as rows of the table runtime.  `types` has a letter for each column of the files: t instant to the
 * millisecond, l BIGINT, s text, - one that nobody wants; `names` are those of the others.
 */
public final class CsvRows extends SimpleStreamFormat<RowData> {
    final String types;
    final String[] names;

    CsvRows(String types, String[] names) {
        this.types = types;
        this.names = names;
    }

    /** With one reader in the order of the files: the assigner hands out the last file first, so they are given backwards. */
    public static DataStream<RowData> stream(StreamExecutionEnvironment env, String types, String names, String files, int readers) {
        CsvRows format = new CsvRows(types, names.split(","));
        List<Path> paths = Arrays.stream(files.split(",")).map(Path::new).collect(Collectors.toList());
        Collections.reverse(paths);
        FileSource<RowData> source = FileSource.forRecordStreamFormat(format, paths.toArray(new Path[0]))
            .setSplitAssigner(SimpleSplitAssigner::new).build();
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), "csv", format.getProducedType()).setParallelism(readers);
    }

    /** The changes of a table as lines of CSV, the kind of change first: by far faster than collect() of Python. */
    public static void writeChanges(Table table, String file) throws Exception {
        try (CloseableIterator<Row> changes = table.execute().collect();
            BufferedWriter lines = Files.newBufferedWriter(java.nio.file.Path.of(file))) {
            while (changes.hasNext()) {
                Row row = changes.next();
                lines.write(row.getKind().shortString());
                for (int i = 0; i < row.getArity(); i++) {
                    lines.write("," + row.getField(i));
                }
                lines.newLine();
            }
        }
    }

    @Override
    public StreamFormat.Reader<RowData> createReader(Configuration config, FSDataInputStream stream) throws IOException {
        return new Lines(stream.readAllBytes(), types);
    }

    @Override
    public TypeInformation<RowData> getProducedType() {
        LogicalType[] columns = types.chars().filter(type -> type != '-').mapToObj(type -> switch (type) {
            case 't' -> new TimestampType(3);
            case 's' -> new VarCharType(VarCharType.MAX_LENGTH);
            default -> new BigIntType();
        }).toArray(LogicalType[]::new);
        return InternalTypeInfo.of(RowType.of(columns, names));
    }

    /** The rows of one file; the day is worked out once, not for each row. */
    static final class Lines implements StreamFormat.Reader<RowData> {
        final byte[] text;
        final byte[] types;
        final int wanted;
        int at;
        int day = -1;
        long dayMillis;

        Lines(byte[] text, String types) {
            this.text = text;
            this.types = types.getBytes();
            this.wanted = (int) types.chars().filter(type -> type != '-').count();
        }

        @Override
        public RowData read() {
            if (at >= text.length) {
                return null;
            }
            GenericRowData row = new GenericRowData(wanted);
            int place = 0;
            for (byte type : types) {
                if (type == '-') {
                    end();
                } else {
                    row.setField(place++, type == 't' ? instant() : type == 's' ? string() : (Object) number());
                }
                at += text[at] == '\r' ? 2 : 1;
            }
            return row;
        }

        TimestampData instant() {
            int date = digits(at, 4) * 10000 + digits(at + 5, 2) * 100 + digits(at + 8, 2);
            if (date != day) {
                day = date;
                dayMillis = LocalDate.of(date / 10000, date / 100 % 100, date % 100).toEpochDay() * 86_400_000L;
            }
            long millis = dayMillis + digits(at + 11, 2) * 3_600_000L + digits(at + 14, 2) * 60_000L + digits(at + 17, 2) * 1000L
                + digits(at + 20, 3);
            at += 23;
            return TimestampData.fromEpochMillis(millis);
        }

        StringData string() {
            int start = at;
            end();
            return StringData.fromBytes(text, start, at - start);
        }

        long number() {
            long number = 0;
            for (byte b = text[at]; b != ',' && b != '\n' && b != '\r'; b = text[++at]) {
                number = number * 10 + (b - '0');
            }
            return number;
        }

        /** Goes to the end of the column. */
        void end() {
            for (byte b = text[at]; b != ',' && b != '\n' && b != '\r'; b = text[++at]) {}
        }

        int digits(int from, int count) {
            int number = 0;
            for (int i = from; i < from + count; i++) {
                number = number * 10 + (text[i] - '0');
            }
            return number;
        }

        @Override
        public void close() {}
    }
}
