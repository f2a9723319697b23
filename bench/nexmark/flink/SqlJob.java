import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/**
 * SqlJob SCRIPT CHECKPOINTS: runs statements that end in ";" and a line break.
 *
 * The last statement is an INSERT.  Prints the seconds from when its job runs until it ends.
 */
public class SqlJob {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.setString("taskmanager.memory.network.max", "256mb");
        conf.setString("taskmanager.memory.network.min", "256mb");
        conf.setString("taskmanager.memory.managed.size", "512mb");
        conf.setString("taskmanager.numberOfTaskSlots", "2");
        conf.setString("state.backend.type", "hashmap");
        conf.setString("execution.checkpointing.storage", "filesystem");
        conf.setString("execution.checkpointing.dir", "file://" + args[1]);
        conf.setString("execution.checkpointing.interval", "10 s");
        conf.setString("execution.checkpointing.mode", "EXACTLY_ONCE");
        conf.setString("execution.buffer-timeout.interval", "100 ms");
        conf.setString("pipeline.object-reuse", "true");
        // The settings of nexmark/nexmark.
        conf.setString("table.exec.mini-batch.enabled", "true");
        conf.setString("table.exec.mini-batch.allow-latency", "2 s");
        conf.setString("table.exec.mini-batch.size", "50000");
        conf.setString("table.optimizer.distinct-agg.split.enabled", "true");
        conf.setString("table.local-time-zone", "UTC");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, conf);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        for (String statement : Files.readString(Path.of(args[0])).split(";\n")) {
            TableResult result = tables.executeSql(statement);
            if (result.getJobClient().isPresent()) {
                System.out.printf("ran %.3f s%n", seconds(result.getJobClient().get(), result));
            }
        }
        System.exit(0);
    }

    private static double seconds(JobClient job, TableResult result) throws Exception {
        while (job.getJobStatus().get() != JobStatus.RUNNING) {
            Thread.sleep(10);
        }
        long began = System.nanoTime();
        result.await();
        return (System.nanoTime() - began) / 1e9;
    }
}
