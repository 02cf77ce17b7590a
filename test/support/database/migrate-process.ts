// A process that migrates the database of its first argument and prints the numbers of the migrations, or the code
// of the error.
import { openDatabase } from '../../../src/database/database.ts'
import { migrate, MigrationError } from '../../../src/database/migrate.ts'

const database = openDatabase({
  address: { url: process.argv[2] ?? '' },
  applicationName: 'vedette tests',
})
try {
  process.stdout.write(JSON.stringify(await migrate(database)))
} catch (error) {
  if (!(error instanceof MigrationError)) throw error
  process.stdout.write(error.code)
}
await database.close()
