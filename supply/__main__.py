from supply.cli import main

main()
