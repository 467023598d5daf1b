package icegate.tests;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** Iceberg's own catalog, where a system property says how commits of a table fail. */
public class FailingCatalog extends org.apache.iceberg.jdbc.JdbcCatalog {
  protected TableOperations newTableOps(TableIdentifier table) {
    return new Operations(super.newTableOps(table), table.name());
  }

  public static class Operations implements TableOperations {
    private TableOperations real;
    private String table;

    public Operations(TableOperations real, String table) {
      this.real = real;
      this.table = table;
    }

    public void commit(TableMetadata base, TableMetadata metadata) {
      String way = System.getProperty("icegate.fails." + table);
      RuntimeException lost = new RuntimeException("the connection broke");
      if ("lost before".equals(way)) {
        throw new CommitStateUnknownException(lost);
      } else if ("forbidden".equals(way)) {
        throw new ForbiddenException("no right to write %s", new Object[] {table});
      } else if ("denied".equals(way)) {
        Exception cause = new java.nio.file.AccessDeniedException(table);
        throw new CommitFailedException(cause, "cannot write %s", new Object[] {table});
      }
      real.commit(base, metadata);
      if ("lost after".equals(way)) {
        throw new CommitStateUnknownException(lost);
      }
    }

    public TableMetadata current() {
      return real.current();
    }

    public TableMetadata refresh() {
      return real.refresh();
    }

    public FileIO io() {
      return real.io();
    }

    public String metadataFileLocation(String file) {
      return real.metadataFileLocation(file);
    }

    public LocationProvider locationProvider() {
      return real.locationProvider();
    }
  }
}
