// `vedette backup <file>` and `vedette restore <file>`: the database that the platform uses, without its keys.
import { VERSION } from '../contract/versions.ts'
import { BackupError, openBackup, restoreBackup, writeBackup } from '../database/backup.ts'
import type { Database } from '../database/database.ts'
import { migrate, readMigrations } from '../database/migrate.ts'
import { type DatabaseContext, runOnDatabase } from './database-command.ts'
import { openPlatformDatabase } from './open-database.ts'

/** Writes the database to `path`; resolves with the exit code. */
export function runBackup(path: string, context: DatabaseContext): Promise<number> {
  const work = async (database: Database) => {
    const rows = await writeBackup(database, path, VERSION)
    return `${path} has ${rows} rows. Back up SECRETS_KEY (or secrets.key) and files of results separately.\n`
  }
  return runOnDatabase('backup', () => work, context)
}

/** Fills an empty database from `path`; resolves with the exit code. */
export function runRestore(path: string, context: DatabaseContext): Promise<number> {
  const prepare = async () => {
    const file = await openBackup(path)
    const { migrations, version } = file.header
    if (migrations > readMigrations().length)
      throw new BackupError(
        `${path} was created by Vedette ${version}, which is newer than ${VERSION}`,
      )
    return async (database: Database) => {
      try {
        const rows = await restoreBackup(database, file)
        await migrate(database)
        return `${rows} rows restored. The platform needs the SECRETS_KEY of that time to read them.\n`
      } finally {
        file.close()
      }
    }
  }
  // The tables have to be those of the backup; later migrations follow.
  return runOnDatabase('restore', prepare, context, (choice, options) =>
    openPlatformDatabase(choice, { ...options, isUnmigrated: true }),
  )
}
