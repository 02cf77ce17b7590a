# run a monitor, cancel it by HTTP at a moment, see how long
. /tmp/real6-work/g/env.sh
name="$1"; after=$2
npx vedette run "$name" --no-wait 2>/dev/null > /tmp/real6-work/g/rid; R=$(grep -oE '[0-9a-f-]{36}' /tmp/real6-work/g/rid | head -1)
sleep $after
S=$(date +%s%N); npx vedette cancel $R 2>&1 | grep -v "npm warn"; 
