// One contender of the bench `ssl`, in a separate process. `node ssl-child.ts <kind> <port> <ca file> <count>`
// prints the cost of the checks; the kind `soak` prints memory and descriptors.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { connect as connectTls, createSecureContext } from 'node:tls'
import { cpuCostMs, type Once, soak, throughRunner } from './contender.ts'

const [kind = '', portText = '', caFile = '', count = '0'] = process.argv.slice(2)
const port = Number(portText)
const ca = readFileSync(caFile, 'utf8')

/** The minimal handshake in Node: a fresh connection that is verified. */
function bare(): () => Promise<void> {
  const secureContext = createSecureContext({ ca })
  return () =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      const secure = connectTls({ socket, secureContext, servername: 'localhost' }, () => {
        secure.getPeerX509Certificate()
        secure.destroy()
        resolve()
      })
      secure.on('error', reject)
    })
}

/** The agent's whole path. */
function ours(): Once {
  const request = { sslConfig: { hostname: 'localhost', port }, tls: { ca } }
  return throughRunner({ checkType: 'SSL', request })
}

const once = kind === 'bare' ? bare() : ours()

const figures = kind === 'soak' ? soak(once, Number(count)) : cpuCostMs(once, Number(count))
process.stdout.write(JSON.stringify(await figures))
