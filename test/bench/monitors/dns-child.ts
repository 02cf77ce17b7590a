// One contender of the bench `dns`, in a separate process: runs `count` checks of a DNS monitor with a fixed
// concurrency on the name server at this port. `node dns-child.ts <cost|soak> <protocol> <port> <count>`.
import { cpuCostMs, soak, throughRunner } from './contender.ts'

const [kind, protocol, port, count] = process.argv.slice(2)
/** The agent's whole path. */
const once = throughRunner({
  checkType: 'DNS',
  request: {
    query: 'www.zone.example',
    recordType: 'A',
    nameServer: '127.0.0.1',
    port: Number(port),
    protocol,
    skipSSL: true,
  },
})
const figures = kind === 'soak' ? soak(once, Number(count)) : cpuCostMs(once, Number(count))
process.stdout.write(JSON.stringify(await figures))
