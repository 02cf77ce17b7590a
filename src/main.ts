// The command line of Vedette: wiring only.
import { COMMANDS } from './cli/commands.ts'
import { VERSION } from './contract/versions.ts'
import { EXIT } from './process/exit-codes.ts'
import { runCommandLine } from './process/command-line.ts'
import { printUncaught } from './process/faults/uncaught.ts'

/** Time for the reader to take the last lines after all work is done. */
const FLUSH_MS = 2000

/** The widest text of the manual, columns. */
const COLUMNS_MAX = 100

const { stdout, stderr } = process

/**
 * Handles errors of the output. When the reader is gone (`| head -1`), the exit code still shows the verdict and
 * an agent runs on. Any other error, such as a full disk, is printed and ends the process.
 */
function handleOutputErrors(): void {
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    stderr.write(`vedette: the output cannot be written: ${error.message}\n`)
    process.exit(EXIT.configuration)
  })
  stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') process.exit(EXIT.configuration)
  })
}

handleOutputErrors()
printUncaught((text) => stderr.write(text))
process.exitCode = await runCommandLine(
  {
    name: 'vedette',
    version: VERSION,
    summary: 'monitors what no outside service can reach',
    commands: COMMANDS,
    epilogue: 'First steps: vedette start, then vedette check monitors.yaml with your own file.',
    async manual() {
      const { createManual } = await import('./cli/help/manual.ts')
      return createManual(Math.min(stdout.columns ?? COLUMNS_MAX, COLUMNS_MAX))
    },
    write: (text) => stdout.write(text),
    complain: (text) => stderr.write(text),
  },
  process.argv.slice(2),
)

// Output to a stalled reader must not keep the process alive for ever.
setTimeout(() => process.exit(), FLUSH_MS).unref()
