import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams on the job of bench/peers/row_before.py: each change record gets the row that it replaces.
 *
 * <p>Its state is in RocksDB behind its cache of records, with a changelog topic. Records are cut and not parsed.
 */
public final class KafkaStreamsPeer {
    private static final String ROWS = "rows";
    private static final int AFTER = "{\"after\": ".length();
    private static final byte[] BEFORE = ", \"before\": ".getBytes();
    private static final byte[] UPDATED = ", \"updated\": ".getBytes();
    private static final byte[] NO_ROW = "null".getBytes();

    public static void main(String[] arguments) throws InterruptedException {
        var builder = new StreamsBuilder();
        var rows = Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(ROWS), Serdes.Bytes(), Serdes.ByteArray());
        builder.addStateStore(rows.withCachingEnabled());
        builder.stream(task("SOURCE"), Consumed.with(Serdes.Bytes(), Serdes.ByteArray()))
                .process(AddRowBefore::new, ROWS)
                .to(task("TARGET"), Produced.with(Serdes.Bytes(), Serdes.ByteArray()));
        var streams = new KafkaStreams(builder.build(), settings());
        streams.setUncaughtExceptionHandler(KafkaStreamsPeer::end);
        var ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static Properties settings() {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, task("NAME"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, task("BOOTSTRAP"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, task("DIRECTORY"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Runtime.getRuntime().availableProcessors());
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 256L << 20);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 5_000);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1_000_000);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.ACKS_CONFIG), "all");
        return settings;
    }

    private static StreamThreadExceptionResponse end(Throwable error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
        return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
    }

    private static String task(String name) {
        return System.getenv("BENCH_" + name);
    }

    private static final class AddRowBefore implements Processor<Bytes, byte[], Bytes, byte[]> {
        private ProcessorContext<Bytes, byte[]> context;
        private KeyValueStore<Bytes, byte[]> rows;

        @Override
        public void init(ProcessorContext<Bytes, byte[]> context) {
            this.context = context;
            this.rows = context.getStateStore(ROWS);
        }

        @Override
        public void process(Record<Bytes, byte[]> record) {
            byte[] value = record.value();
            int cut = lastIndexOf(value, UPDATED);
            byte[] before = rows.get(record.key());
            rows.put(record.key(), Arrays.copyOfRange(value, AFTER, cut));
            context.forward(record.withValue(insert(value, cut, before == null ? NO_ROW : before)));
        }
    }

    private static byte[] insert(byte[] value, int cut, byte[] before) {
        byte[] whole = new byte[value.length + BEFORE.length + before.length];
        System.arraycopy(value, 0, whole, 0, cut);
        System.arraycopy(BEFORE, 0, whole, cut, BEFORE.length);
        System.arraycopy(before, 0, whole, cut + BEFORE.length, before.length);
        int rest = cut + BEFORE.length + before.length;
        System.arraycopy(value, cut, whole, rest, value.length - cut);
        return whole;
    }

    private static int lastIndexOf(byte[] value, byte[] part) {
        for (int at = value.length - part.length; at >= 0; at--) {
            if (Arrays.equals(value, at, at + part.length, part, 0, part.length)) {
                return at;
            }
        }
        throw new IllegalArgumentException("no change record: " + new String(value));
    }
}
